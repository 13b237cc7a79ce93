//! Filters of system calls (seccomp(2)), from the lists in `calls`. A call that is not in a
//! filter is not made: its thread gets SIGSYS, which `trap` turns into a message and the end
//! of the process.

use super::calls::{AS_IF_MISSING, FCNTLS, IOCTLS, OLD, PLAIN, PRCTLS};
use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter_all_threads,
};
use std::collections::BTreeMap;

/// The bits of a socket's kind that are no flags.
const KINDS: u64 = !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) as u32 as u64;

/// Rules for each call; none stand for any arguments.
type Rules = BTreeMap<c_long, Vec<SeccompRule>>;

/// A condition on the argument of this number.
type Condition = Result<SeccompCondition, seccompiler::BackendError>;

/// The argument, an int, is this.
fn is(argument: u8, value: u64) -> Condition {
    let value = value & u64::from(u32::MAX);
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
}

/// Of these bits of the argument, just those of `value` are set.
fn bits(argument: u8, mask: u64, value: u64) -> Condition {
    let op = SeccompCmpOp::MaskedEq(mask);
    SeccompCondition::new(argument, SeccompCmpArgLen::Qword, op, value)
}

/// A pointer that points to nothing.
fn null(argument: u8) -> Condition {
    SeccompCondition::new(argument, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0)
}

/// A list of calls that are permitted, and with which arguments.
#[derive(Debug)]
pub(super) struct Filter(Result<Vec<BpfProgram>, seccompiler::Error>);

impl Filter {
    /// What a running engine needs; `relays` if it connects to its own address by the kernel,
    /// too, for `--expose`.
    pub(super) fn of_engine(relays: bool) -> Self {
        Self(engine_rules(relays).and_then(programs))
    }

    /// What the process that opens files needs: the same, and a device to write to.
    pub(super) fn of_opener() -> Self {
        Self(engine_rules(false).and_then(|mut rules| {
            let new = (libc::O_CREAT | libc::O_TRUNC) as u64;
            let there = SeccompRule::new(vec![bits(2, new, 0)?])?;
            rules.insert(libc::SYS_openat, vec![there]);
            programs(rules)
        }))
    }

    /// Puts it into force in all threads of this process.
    pub(super) fn apply_to_all_threads(self) -> Result<(), seccompiler::Error> {
        for program in self.0? {
            apply_filter_all_threads(&program)?;
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn apply_to_this_thread(self) -> Result<(), seccompiler::Error> {
        for program in self.0? {
            seccompiler::apply_filter(&program)?;
        }
        Ok(())
    }
}

/// The filters for these rules, in the order in which they are put into force: the kernel
/// asks all of them, and the strictest has its way.
fn programs(mut rules: Rules) -> Result<Vec<BpfProgram>, seccompiler::Error> {
    let architecture = std::env::consts::ARCH.try_into()?;
    let missing = AS_IF_MISSING.iter().map(|call| (*call, Vec::new()));
    let first = SeccompFilter::new(
        missing.clone().collect(),
        SeccompAction::Allow,
        SeccompAction::Errno(libc::ENOSYS as u32),
        architecture,
    )?;
    rules.extend(missing);
    let second = SeccompFilter::new(
        rules,
        SeccompAction::Trap,
        SeccompAction::Allow,
        architecture,
    )?;
    Ok(vec![first.try_into()?, second.try_into()?])
}

fn engine_rules(relays: bool) -> Result<Rules, seccompiler::Error> {
    let calls = PLAIN.iter().chain(OLD);
    let mut rules: Rules = calls.map(|call| (*call, Vec::new())).collect();
    let mut allow = |call: c_long, conditions: Vec<Condition>| {
        let conditions = conditions.into_iter().collect::<Result<_, _>>()?;
        let rule = SeccompRule::new(conditions)?;
        rules.entry(call).or_default().push(rule);
        Ok::<_, seccompiler::Error>(())
    };
    // Files are opened for reading.
    let writes = (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC) as u64;
    allow(libc::SYS_openat, vec![bits(2, writes, 0)])?;
    // No memory becomes code.
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        allow(call, vec![bits(2, libc::PROT_EXEC as u64, 0)])?;
    }
    // Threads, and neither processes nor namespaces.
    let others = libc::CLONE_NEWNS
        | libc::CLONE_NEWCGROUP
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUSER
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET;
    let thread = libc::CLONE_THREAD as u64;
    allow(
        libc::SYS_clone,
        vec![bits(0, others as u64 | thread, thread)],
    )?;
    for request in IOCTLS {
        allow(libc::SYS_ioctl, vec![is(1, *request)])?;
    }
    let of_ints = [(libc::SYS_fcntl, 1, FCNTLS), (libc::SYS_prctl, 0, PRCTLS)];
    for (call, argument, values) in of_ints {
        for value in values {
            allow(call, vec![is(argument, *value as u64)])?;
        }
    }
    // Its limits are asked for, and not changed.
    allow(libc::SYS_prlimit64, vec![null(2)])?;
    // The priority of its own thread (`who` is 0).
    allow(
        libc::SYS_setpriority,
        vec![is(0, libc::PRIO_PROCESS as u64), is(1, 0)],
    )?;
    // On which processors its own thread runs.
    allow(libc::SYS_sched_setaffinity, vec![is(0, 0)])?;
    // Signals to itself, and whether another process is there.
    allow(libc::SYS_tgkill, vec![is(0, u64::from(std::process::id()))])?;
    allow(libc::SYS_kill, vec![is(1, 0)])?;
    allow(libc::SYS_socketpair, vec![is(0, libc::AF_UNIX as u64)])?;
    if relays {
        for family in [libc::AF_INET, libc::AF_INET6] {
            for kind in [libc::SOCK_STREAM, libc::SOCK_DGRAM] {
                let family = is(0, family as u64);
                allow(libc::SYS_socket, vec![family, bits(1, KINDS, kind as u64)])?;
            }
        }
        rules.insert(libc::SYS_connect, Vec::new());
    }
    Ok(rules)
}
