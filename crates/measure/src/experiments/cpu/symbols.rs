//! Which part of the work a function is: by its name, and whether it is the kernel's.

/// Parts of the work, as Fig. 3 of 2001 has them; `Far` is not Longshore's, and `Unknown` has no
/// name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Data,
    WakeUps,
    Memory,
    Buffers,
    TcpIp,
    Driver,
    Far,
    Other,
    Unknown,
}

impl Part {
    pub(super) const ALL: [Part; 9] = [
        Part::Data,
        Part::WakeUps,
        Part::Memory,
        Part::Buffers,
        Part::TcpIp,
        Part::Driver,
        Part::Far,
        Part::Other,
        Part::Unknown,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Part::Data => "data access",
            Part::WakeUps => "wake-ups",
            Part::Memory => "memory",
            Part::Buffers => "buffers",
            Part::TcpIp => "TCP/IP",
            Part::Driver => "driver",
            Part::Far => "far end",
            Part::Other => "other",
            Part::Unknown => "unknown",
        }
    }
}

/// Where a function belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Owner {
    Program,
    Kernel,
}

impl Owner {
    pub(super) fn name(self) -> &'static str {
        match self {
            Owner::Program => "program",
            Owner::Kernel => "kernel",
        }
    }
}

/// Names of a part, of which the first that fits counts.
pub(super) struct Rule {
    pub(super) part: Part,
    pub(super) owner: Owner,
    /// Pieces of names, with blanks between them.
    pub(super) names: &'static str,
}

const fn rule(part: Part, owner: Owner, names: &'static str) -> Rule {
    Rule { part, owner, names }
}

/// All of them, in their order.
pub(super) const RULES: [Rule; 13] = [
    rule(
        Part::Data,
        Owner::Kernel,
        "copy_user copy_from_user copy_to_user _copy_from_iter _copy_to_iter \
         copy_page_from_iter copy_page_to_iter csum memcpy memmove rep_movs copy_mc \
         skb_copy_datagram simple_copy_to_iter skb_copy_bits skb_checksum iov_iter_advance \
         copyin copyout",
    ),
    rule(
        Part::Data,
        Owner::Program,
        "memcpy memmove memset longshore_wire::checksum longshore_measure copy_from_slice \
         copy_out",
    ),
    rule(
        Part::Memory,
        Owner::Kernel,
        "clear_page page_fault handle_mm alloc_pages get_page_from_freelist free_unref \
         free_page release_pages unmap mmap shmem vma tlb charge do_fault filemap folio \
         pte_ mas_ __mod_ rmqueue page_counter page_frag __page put_page zap_ frozen_pages \
         xas_ security_vm dquot",
    ),
    rule(
        Part::Driver,
        Owner::Kernel,
        "tun_ virtio_net vfs_ ksys_ __x64_sys_read __x64_sys_write new_sync fdget __fget \
         rw_verify import_iovec import_single iovec __x64_sys_pread fput security_file \
         fsnotify eth_type_trans sys_readv sys_writev do_iter do_readv do_writev",
    ),
    // Before wake-ups, of which these have words in their names.
    rule(
        Part::Far,
        Owner::Kernel,
        "softirq tcp_schedule tcp_rearm tcp_write_timer tcp_delack tcp_rcv tcp_pacing",
    ),
    rule(
        Part::WakeUps,
        Owner::Kernel,
        "futex sched wake eventfd ep_ epoll poll hrtimer irq interrupt switch pick_next \
         enqueue_task dequeue_task update_curr update_load load_avg cpuacct select_task \
         idle syscall ktime clockevents tick_ apic rcu timer read_tsc spin_ finish_task \
         entry_SYSCALL asm_ exit_to_user set_next_entity put_prev task_ ttwu cpumask yield \
         hypercall kvm pv_",
    ),
    rule(
        Part::Far,
        Owner::Kernel,
        "tcp_ ip_ inet skb sk_ sock netif net_rx napi gro_ process_backlog nf_ dst_ fib_ \
         qdisc dev_ kfree kmem kmalloc slab ipv4 neigh bpf validate_xmit __xfrm raw_ \
         ktime_get __build netdev loopback release_ cubic bictcp ip6 udp packet_ __free \
         napi_ memcg mem_cgroup lock_",
    ),
    rule(
        Part::WakeUps,
        Owner::Program,
        "::sleep:: futex syscall clock_gettime __vdso epoll ppoll eventfd Doorbell Sleeper \
         sleeper ::wait:: look_awhile __GI___poll pthread nanosleep EventfdSignaler waiter yield \
         Timespec",
    ),
    rule(
        Part::Memory,
        Owner::Program,
        "malloc _int_free calloc realloc cfree mmap madvise",
    ),
    rule(
        Part::Driver,
        Owner::Program,
        "longshore_ports longshore_frames __libc_read __libc_write readv writev __read \
         __write rustix::io rustix::backend::io",
    ),
    rule(
        Part::TcpIp,
        Owner::Program,
        "longshore_tcp longshore_net longshore_wire longshore_stack longshore_engine",
    ),
    rule(
        Part::Buffers,
        Owner::Program,
        "longshore_hostif longshore_ring longshore_sockets longshore_posix \
         longshore_preload longshore_link std::io std::net std::sys",
    ),
    rule(Part::Buffers, Owner::Program, "recv send read write"),
];

/// Names that perf finds in libc's debug information and in the kernel's page of system calls,
/// and no linker elsewhere.
const OF_LIBC: [&str; 6] = [
    "__vdso",
    "__GI___poll",
    "_int_free",
    "cfree",
    "__libc_read",
    "__libc_write",
];

/// The pieces of names that functions of what is built must have: programs', and libc's that they
/// call.
pub fn built_names() -> impl Iterator<Item = &'static str> {
    let programs = RULES.iter().filter(|rule| rule.owner == Owner::Program);
    programs
        .flat_map(|rule| rule.names.split(' '))
        .filter(|name| !OF_LIBC.contains(name))
}

/// The part that a function belongs to.
pub(super) fn part_of(owner: Owner, name: &str) -> Part {
    // Where perf finds no name it has the address.
    if name.starts_with("0x") || name == "[unknown]" {
        return Part::Unknown;
    }
    let fits = |rule: &&Rule| {
        rule.owner == owner && rule.names.split(' ').any(|piece| name.contains(piece))
    };
    RULES
        .iter()
        .find(fits)
        .map_or(Part::Other, |rule| rule.part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_their_parts() {
        for (owner, name, part) in [
            (Owner::Kernel, "copy_page_from_iter", Part::Data),
            (Owner::Kernel, "tun_get_user", Part::Driver),
            (Owner::Kernel, "try_to_wake_up", Part::WakeUps),
            (Owner::Kernel, "handle_softirqs", Part::Far),
            (Owner::Kernel, "tcp_v4_rcv", Part::Far),
            (Owner::Kernel, "tcp_schedule_loss_probe.part.0", Part::Far),
            (Owner::Kernel, "schedule_timeout", Part::WakeUps),
            (Owner::Kernel, "0xffffffff9ac01234", Part::Unknown),
            (Owner::Program, "[unknown]", Part::Unknown),
            (Owner::Kernel, "clear_page_erms", Part::Memory),
            (Owner::Kernel, "an_unknown_one", Part::Other),
            (Owner::Program, "__memmove_avx_unaligned_erms", Part::Data),
            (
                Owner::Program,
                "<longshore_tcp::tcb::Tcb>::on_segment",
                Part::TcpIp,
            ),
            (
                Owner::Program,
                "longshore_engine::sleep::<impl longshore_engine::engine::Engine>::look",
                Part::WakeUps,
            ),
            (
                Owner::Program,
                "<longshore_stack::demux::used_ports::UsedPorts>::note_one",
                Part::TcpIp,
            ),
            (
                Owner::Program,
                "longshore_hostif::adapter::receive::ReceiveStream::place",
                Part::Buffers,
            ),
            (
                Owner::Program,
                "longshore_ports::tap::Tap::send",
                Part::Driver,
            ),
        ] {
            assert_eq!(part_of(owner, name), part, "{name}");
        }
    }
}
