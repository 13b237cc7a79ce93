//! What of libc the shim has: each function that takes a descriptor, waits, resolves names,
//! installs handlers of signals or executes programs is caught under all of its names, or
//! left to libc for a reason that is written down here.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// What is left to libc, and why.
const LEFT: &[(&str, &[&str])] = &[
    (
        "a socket has no place: the kernel says ESPIPE of the socket behind it",
        &[
            "pread",
            "pread64",
            "__pread64",
            "__pread_chk",
            "__pread64_chk",
            "preadv",
            "preadv64",
            "pwrite",
            "pwrite64",
            "__pwrite64",
            "pwritev",
            "pwritev64",
            "lseek",
            "lseek64",
            "llseek",
            "__lseek",
            "readahead",
        ],
    ),
    (
        "not for sockets: the kernel says so of the socket behind it",
        &[
            "fsync",
            "fdatasync",
            "syncfs",
            "ftruncate",
            "ftruncate64",
            "fallocate",
            "fallocate64",
            "posix_fallocate",
            "posix_fallocate64",
            "posix_fadvise",
            "posix_fadvise64",
            "sync_file_range",
            "copy_file_range",
            "fchdir",
            "fdopendir",
            "isatty",
            "ttyname",
            "ttyname_r",
            "__ttyname_r_chk",
            "flock",
            "lockf",
            "lockf64",
            "fpathconf",
        ],
    ),
    (
        "about the file alone, which the socket behind it answers for",
        &[
            "fstat",
            "fstat64",
            "__fxstat",
            "__fxstat64",
            "fstatfs",
            "fstatfs64",
            "fstatvfs",
            "fstatvfs64",
            "fchmod",
            "fchown",
            "futimens",
            "futimes",
            "isfdtype",
            "fgetxattr",
            "fsetxattr",
            "flistxattr",
            "fremovexattr",
        ],
    ),
    (
        "only looks whether a descriptor fits a set; select is caught",
        &["__fdelt_chk", "__fdelt_warn"],
    ),
    (
        "works in threads of libc's own, with calls inside libc: no data comes there",
        &[
            "aio_read",
            "aio_read64",
            "aio_write",
            "aio_write64",
            "aio_fsync",
            "aio_fsync64",
            "aio_suspend",
            "aio_suspend64",
            "lio_listio",
            "lio_listio64",
            "getaddrinfo_a",
        ],
    ),
    (
        "the rsh and rexec clients of libc, which connect inside libc: by the kernel",
        &[
            "rcmd",
            "rcmd_af",
            "rexec",
            "rexec_af",
            "ruserok",
            "ruserok_af",
        ],
    ),
    (
        "names of networks, which are no longer asked of nameservers; a list of hosts in a file",
        &[
            "getnetbyname",
            "getnetbyname_r",
            "getnetbyaddr",
            "getnetbyaddr_r",
            "gethostent",
            "gethostent_r",
        ],
    ),
    (
        "forks by libc's handlers, which are ours; what it puts in the place of 0 to 2 is no \
         socket, and a socket that was there stays open",
        &["daemon", "forkpty", "login_tty", "openpty"],
    ),
    (
        "executes a shell with the environment as it is, inside libc",
        &["wordexp"],
    ),
    (
        "a descriptor of another process, whose session its socket is in",
        &["pidfd_getfd"],
    ),
    (
        "installs no handler of the program's, or only waits for signals",
        &[
            "sigignore",
            "sighold",
            "sigrelse",
            "sigpause",
            "__sigpause",
            "__xpg_sigpause",
            "sigsuspend",
            "__sigsuspend",
            "signalfd",
            "gsignal",
        ],
    ),
    (
        "closes a FILE: one of a socket is made of our own calls",
        &["fclose", "_IO_fclose", "pclose", "fcloseall"],
    ),
    (
        "says what the child does; posix_spawn is caught",
        &[
            "posix_spawn_file_actions_addopen",
            "posix_spawn_file_actions_addclose",
            "posix_spawn_file_actions_addclosefrom_np",
        ],
    ),
];

/// The names, without their versions, that a library has for programs; `all` of them has
/// those for other libraries of glibc, too.
fn exports(library: &Path, all: bool) -> BTreeSet<String> {
    let output = Command::new("nm")
        .args(["-D", "--defined-only", "--with-symbol-versions"])
        .arg(library)
        .output()
        .expect("nm is installed, as gcc is");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace().skip(1);
            let (kind, name) = (words.next()?, words.next()?);
            let is_function = matches!(kind, "T" | "W" | "i");
            (is_function && (all || !name.ends_with("GLIBC_PRIVATE")))
                .then(|| name.split('@').next().unwrap_or(name).to_owned())
        })
        .collect()
}

fn libc(all: bool) -> BTreeSet<String> {
    let output = Command::new("gcc")
        .arg("-print-file-name=libc.so.6")
        .output()
        .expect("gcc is installed");
    exports(
        Path::new(String::from_utf8_lossy(&output.stdout).trim()),
        all,
    )
}

fn ours() -> BTreeSet<String> {
    let program = longshore_e2e::longshore();
    exports(&program.with_file_name("liblongshore_preload.so"), false)
}

/// A name without what tells variants of one function apart.
fn stem(name: &str) -> &str {
    let plain = ["__libc_", "_IO_", "__", "_"]
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix))
        .unwrap_or(name);
    let plain = plain.strip_suffix("_chk").unwrap_or(plain);
    let plain = plain.strip_suffix("_unlocked").unwrap_or(plain);
    plain.strip_suffix("64").unwrap_or(plain)
}

/// What the shim defines beside functions of libc: what a sanitizer's library asks for, the
/// functions by which liburing sets up rings, and libaio's that begins requests.
const OTHERS: &[&str] = &[
    "__asan_default_options",
    "io_uring_queue_init",
    "io_uring_queue_init_mem",
    "io_uring_queue_init_params",
    "io_uring_setup",
    "io_submit",
];

/// What the shim defines that libc has from a later release on than some of those that it runs
/// with: with an earlier one it says ENOSYS.
const LATER: &[&str] = &["pidfd_spawn", "pidfd_spawnp"];

#[test]
fn each_call_is_caught_under_all_its_names_or_left_for_a_reason() {
    let ours = ours();
    let libc = libc(false);
    let left: BTreeSet<&str> = LEFT.iter().flat_map(|(_, names)| *names).copied().collect();
    let both: Vec<_> = left.iter().filter(|name| ours.contains(**name)).collect();
    assert!(both.is_empty(), "caught, and said to be left: {both:?}");
    let stems: BTreeSet<&str> = ours
        .iter()
        .map(String::as_str)
        .chain(left.iter().copied())
        .map(stem)
        .collect();
    let missing: Vec<_> = libc
        .iter()
        .filter(|name| stems.contains(stem(name)))
        .filter(|name| !ours.contains(*name) && !left.contains(name.as_str()))
        .collect();
    assert!(
        missing.is_empty(),
        "neither caught nor left for a reason: {missing:?}"
    );
    let all = self::libc(true);
    let is_unknown =
        |name: &&String| !all.contains(*name) && ![OTHERS, LATER].concat().contains(&name.as_str());
    let unknown: Vec<_> = ours.iter().filter(is_unknown).collect();
    assert!(unknown.is_empty(), "no function of libc: {unknown:?}");
}

/// What takes a descriptor by the manual's sections on files, sockets and waiting.
#[test]
fn what_takes_descriptors_is_known() {
    const TAKE: &[&str] = &[
        "read",
        "write",
        "readv",
        "writev",
        "pread",
        "pwrite",
        "preadv",
        "pwritev",
        "preadv2",
        "pwritev2",
        "close",
        "close_range",
        "closefrom",
        "dup",
        "dup2",
        "dup3",
        "fcntl",
        "ioctl",
        "socket",
        "bind",
        "listen",
        "accept",
        "accept4",
        "connect",
        "shutdown",
        "getsockname",
        "getpeername",
        "getsockopt",
        "setsockopt",
        "setsourcefilter",
        "getsourcefilter",
        "setipv4sourcefilter",
        "getipv4sourcefilter",
        "send",
        "sendto",
        "sendmsg",
        "sendmmsg",
        "recv",
        "recvfrom",
        "recvmsg",
        "recvmmsg",
        "sockatmark",
        "isfdtype",
        "poll",
        "ppoll",
        "select",
        "pselect",
        "epoll_create",
        "epoll_create1",
        "epoll_ctl",
        "epoll_wait",
        "epoll_pwait",
        "epoll_pwait2",
        "sendfile",
        "pipe",
        "pipe2",
        "splice",
        "tee",
        "vmsplice",
        "madvise",
        "mprotect",
        "mremap",
        "copy_file_range",
        "fdopen",
        "fileno",
        "dprintf",
        "vdprintf",
        "fexecve",
        "execveat",
        "pidfd_getfd",
        "lio_listio",
        "aio_read",
        "aio_write",
        "bindresvport",
        "lseek",
        "fstat",
        "fsync",
    ];
    let ours = ours();
    let left: BTreeSet<&str> = LEFT.iter().flat_map(|(_, names)| *names).copied().collect();
    let missing: Vec<_> = TAKE
        .iter()
        .filter(|name| !ours.contains(**name) && !left.contains(*name))
        .collect();
    assert!(
        missing.is_empty(),
        "neither caught nor left for a reason: {missing:?}"
    );
}
