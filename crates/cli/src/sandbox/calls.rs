//! The system calls that a running engine makes, and the C library and the handling of panics
//! on its behalf.
//!
//! The list is generous in variants of the same thing, since C libraries and kernels differ in
//! which they use, and has nothing by which a process gets at other processes, at files other
//! than by opening them for reading, at kernel objects of other kinds, or at code that it was
//! not started with. `seccomp` makes filters of it.

use libc::{c_long, c_ulong};

/// Calls that are permitted whatever their arguments are.
pub(super) const PLAIN: &[c_long] = &[
    // Reading and writing what is open.
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_lseek,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_fstatfs,
    libc::SYS_readlinkat,
    libc::SYS_getcwd,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    // Removing its own sockets and directory.
    libc::SYS_getdents64,
    libc::SYS_unlinkat,
    // Memory, also that of arenas.
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_memfd_create,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    // Events.
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_ppoll,
    libc::SYS_eventfd2,
    // Linux AIO, by which other sides' eventfds are rung.
    libc::SYS_io_submit,
    libc::SYS_io_getevents,
    libc::SYS_io_destroy,
    // Sockets that there are. An interface that returns is bound to anew.
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_shutdown,
    // Programs' ends.
    libc::SYS_pidfd_open,
    // Threads.
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_get_robust_list,
    libc::SYS_rseq,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_getcpu,
    libc::SYS_membarrier,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // Signals to itself.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    // The time, and waiting for it.
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
    // What it is.
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getrlimit,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_getrandom,
];

/// Older names of some of these, which newer architectures do not have.
#[cfg(target_arch = "x86_64")]
pub(super) const OLD: &[c_long] = &[
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_unlink,
    libc::SYS_rmdir,
    libc::SYS_poll,
    libc::SYS_epoll_wait,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
pub(super) const OLD: &[c_long] = &[];

/// Calls that the C library does without if the kernel does not have them, and which a filter
/// cannot look into, since their arguments are in memory.
pub(super) const AS_IF_MISSING: &[c_long] = &[libc::SYS_clone3, libc::SYS_openat2];

/// Requests of `ioctl`: questions about interfaces, what a TAP device lets through, and whether a
/// descriptor blocks or is a terminal. Not TIOCSTI, by which a process types for others.
pub(super) const IOCTLS: &[c_ulong] = &[
    libc::SIOCGIFINDEX as c_ulong,
    libc::SIOCGIFFLAGS as c_ulong,
    libc::SIOCGIFMTU as c_ulong,
    libc::SIOCGIFHWADDR as c_ulong,
    libc::TUNATTACHFILTER as c_ulong,
    libc::TUNDETACHFILTER as c_ulong,
    libc::FIONBIO as c_ulong,
    libc::FIONREAD as c_ulong,
    libc::TCGETS as c_ulong,
];

/// Commands of `fcntl`. Not F_SETOWN, by which the kernel sends signals.
pub(super) const FCNTLS: &[libc::c_int] = &[
    libc::F_GETFD,
    libc::F_SETFD,
    libc::F_GETFL,
    libc::F_SETFL,
    libc::F_DUPFD_CLOEXEC,
    libc::F_ADD_SEALS,
    libc::F_GET_SEALS,
];

/// Operations of `prctl`: names of threads and of memory.
pub(super) const PRCTLS: &[libc::c_int] = &[libc::PR_SET_NAME, libc::PR_GET_NAME, libc::PR_SET_VMA];

macro_rules! names {
    ($($name:ident)*) => { &[$((stringify!($name), libc::$name)),*] };
}

/// Names of calls that may be forbidden, for the message.
const NAMES: &[(&str, c_long)] = names!(
    SYS_execve SYS_execveat SYS_clone SYS_kill SYS_tkill SYS_tgkill SYS_rt_sigqueueinfo
    SYS_rt_tgsigqueueinfo SYS_pidfd_send_signal SYS_pidfd_getfd SYS_wait4 SYS_waitid
    SYS_ptrace SYS_process_vm_readv SYS_process_vm_writev SYS_process_madvise SYS_kcmp
    SYS_openat SYS_open_by_handle_at SYS_name_to_handle_at SYS_truncate SYS_mkdirat SYS_mknodat
    SYS_linkat SYS_symlinkat SYS_renameat SYS_renameat2 SYS_fchmod SYS_fchmodat SYS_fchown
    SYS_fchownat SYS_utimensat SYS_setxattr SYS_fsetxattr SYS_chdir SYS_fchdir SYS_chroot
    SYS_pivot_root SYS_mount SYS_umount2 SYS_move_mount SYS_open_tree SYS_fsopen SYS_unshare
    SYS_setns SYS_mmap SYS_mprotect SYS_pkey_mprotect SYS_mlock SYS_mlockall SYS_memfd_secret
    SYS_userfaultfd SYS_shmget SYS_shmat SYS_socket SYS_connect SYS_listen SYS_socketpair
    SYS_ioctl SYS_fcntl SYS_flock SYS_pipe2 SYS_dup3 SYS_splice SYS_sendfile
    SYS_io_setup SYS_io_uring_setup SYS_io_uring_enter SYS_inotify_init1 SYS_fanotify_init
    SYS_signalfd4 SYS_timerfd_create SYS_bpf SYS_perf_event_open SYS_init_module
    SYS_finit_module SYS_delete_module SYS_kexec_load SYS_kexec_file_load SYS_reboot SYS_keyctl
    SYS_add_key SYS_request_key SYS_prctl SYS_seccomp SYS_capset SYS_setuid SYS_setresuid
    SYS_setgid SYS_setgroups SYS_setrlimit SYS_prlimit64 SYS_personality SYS_sched_setaffinity
    SYS_sched_setscheduler SYS_setpriority SYS_sethostname SYS_settimeofday SYS_clock_settime
    SYS_swapon SYS_acct SYS_syslog SYS_quotactl SYS_umask SYS_getrusage
);

/// What a system call is called.
pub(super) fn name(number: c_long) -> Option<&'static str> {
    let mut all = NAMES.iter();
    all.find(|(_, known)| *known == number)
        .and_then(|(name, _)| name.strip_prefix("SYS_"))
}
