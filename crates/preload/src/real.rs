//! libc's own functions, found behind ours.
//!
//! Many are cancellation points, at which a cancelled thread ends by unwinding: they are
//! called with nothing to drop in any frame of ours, or in `cancel::held`.

use crate::user::{
    Action, Argument, Buffer, Format, Handler, In, Message, OneMessage, Opaque, Out, Run, Start,
    Strings, Text, VaList,
};
use libc::{
    FILE, addrinfo, c_char, c_int, c_uint, c_ulong, c_void, epoll_event, fd_set, in_addr, nfds_t,
    off_t, pid_t, pollfd, posix_spawn_file_actions_t, posix_spawnattr_t, pthread_attr_t, pthread_t,
    sigset_t, size_t, sockaddr, sockaddr_storage, socklen_t, ssize_t, timespec, timeval,
};
use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Stands in for a function that this libc does not have.
unsafe extern "C" fn missing() -> ssize_t {
    crate::results::set_errno(libc::ENOSYS);
    -1
}

/// Where libc's function of this name is, which is kept `at`.
pub(crate) fn find(at: &AtomicUsize, name: &CStr) -> usize {
    match at.load(Ordering::Relaxed) {
        0 => {
            // SAFETY: a lookup by name; the name is a C string.
            let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) } as usize;
            let found = if found == 0 {
                missing as *const () as usize
            } else {
                found
            };
            at.store(found, Ordering::Relaxed);
            found
        }
        found => found,
    }
}

/// Functions of libc by their types. Their arguments carry C's promises with them ([`In`],
/// [`Out`] and the like).
macro_rules! real {
    ($($name:ident($($arg:ident: $type:ty),*) -> $ret:ty;)*) => {$(
        #[inline]
        #[allow(non_snake_case, clippy::too_many_arguments)]
        pub(crate) fn $name($($arg: $type),*) -> $ret {
            static AT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
            const NAME: &std::ffi::CStr = match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => c"",
            };
            let found = $crate::real::find(&AT, NAME);
            // SAFETY: libc's function of this name has this type; the one that
            // stands in takes no arguments and returns -1 in the same place. What
            // C has promised for the arguments, they say by their types.
            let f: extern "C-unwind" fn($($type),*) -> $ret = unsafe { std::mem::transmute(found) };
            f($($arg),*)
        }
    )*};
}

pub(crate) use real;

real! {
    pthread_create(thread: Out<'_, pthread_t>, attr: In<'_, pthread_attr_t>, run: Option<Start>, argument: Out<'_, c_void>) -> c_int;
    thrd_create(thread: Out<'_, pthread_t>, run: Option<Run>, argument: Out<'_, c_void>) -> c_int;
    pthread_sigmask(how: c_int, new: In<'_, sigset_t>, old: Out<'_, sigset_t>) -> c_int;
    sigprocmask(how: c_int, new: In<'_, sigset_t>, old: Out<'_, sigset_t>) -> c_int;
    socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    bind(fd: c_int, addr: In<'_, sockaddr>, len: socklen_t) -> c_int;
    listen(fd: c_int, backlog: c_int) -> c_int;
    accept4(fd: c_int, addr: Out<'_, sockaddr>, len: Out<'_, socklen_t>, flags: c_int) -> c_int;
    connect(fd: c_int, addr: In<'_, sockaddr>, len: socklen_t) -> c_int;
    getsockname(fd: c_int, addr: Out<'_, sockaddr>, len: Out<'_, socklen_t>) -> c_int;
    getpeername(fd: c_int, addr: Out<'_, sockaddr>, len: Out<'_, socklen_t>) -> c_int;
    getsockopt(fd: c_int, level: c_int, name: c_int, value: Out<'_, c_void>, len: Out<'_, socklen_t>) -> c_int;
    setsockopt(fd: c_int, level: c_int, name: c_int, value: In<'_, c_void>, len: socklen_t) -> c_int;
    setsourcefilter(fd: c_int, interface: u32, group: In<'_, sockaddr>, len: socklen_t, mode: u32, count: u32, list: In<'_, sockaddr_storage>) -> c_int;
    getsourcefilter(fd: c_int, interface: u32, group: In<'_, sockaddr>, len: socklen_t, mode: Out<'_, u32>, count: Out<'_, u32>, list: Out<'_, sockaddr_storage>) -> c_int;
    setipv4sourcefilter(fd: c_int, interface: in_addr, group: in_addr, mode: u32, count: u32, list: In<'_, in_addr>) -> c_int;
    getipv4sourcefilter(fd: c_int, interface: in_addr, group: in_addr, mode: Out<'_, u32>, count: Out<'_, u32>, list: Out<'_, in_addr>) -> c_int;
    shutdown(fd: c_int, how: c_int) -> c_int;
    send(fd: c_int, buf: In<'_, c_void>, len: size_t, flags: c_int) -> ssize_t;
    sendto(fd: c_int, buf: In<'_, c_void>, len: size_t, flags: c_int, addr: In<'_, sockaddr>, alen: socklen_t) -> ssize_t;
    sendmsg(fd: c_int, msg: In<'_, Message<'_>>, flags: c_int) -> ssize_t;
    sendmmsg(fd: c_int, msgs: Out<'_, OneMessage<'_>>, count: c_uint, flags: c_int) -> c_int;
    recv(fd: c_int, buf: Out<'_, c_void>, len: size_t, flags: c_int) -> ssize_t;
    recvfrom(fd: c_int, buf: Out<'_, c_void>, len: size_t, flags: c_int, addr: Out<'_, sockaddr>, alen: Out<'_, socklen_t>) -> ssize_t;
    recvmsg(fd: c_int, msg: Out<'_, Message<'_>>, flags: c_int) -> ssize_t;
    recvmmsg(fd: c_int, msgs: Out<'_, OneMessage<'_>>, count: c_uint, flags: c_int, timeout: Out<'_, timespec>) -> c_int;
    read(fd: c_int, buf: Out<'_, c_void>, len: size_t) -> ssize_t;
    readv(fd: c_int, iov: In<'_, Buffer<'_>>, count: c_int) -> ssize_t;
    write(fd: c_int, buf: In<'_, c_void>, len: size_t) -> ssize_t;
    writev(fd: c_int, iov: In<'_, Buffer<'_>>, count: c_int) -> ssize_t;
    preadv2(fd: c_int, iov: In<'_, Buffer<'_>>, count: c_int, at: off_t, flags: c_int) -> ssize_t;
    pwritev2(fd: c_int, iov: In<'_, Buffer<'_>>, count: c_int, at: off_t, flags: c_int) -> ssize_t;
    chroot(path: In<'_, c_char>) -> c_int;
    mlockall(flags: c_int) -> c_int;
    close(fd: c_int) -> c_int;
    close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int;
    dup(fd: c_int) -> c_int;
    dup2(from: c_int, to: c_int) -> c_int;
    dup3(from: c_int, to: c_int, flags: c_int) -> c_int;
    ppoll(fds: Out<'_, pollfd>, count: nfds_t, timeout: In<'_, timespec>, mask: In<'_, sigset_t>) -> c_int;
    poll(fds: Out<'_, pollfd>, count: nfds_t, timeout: c_int) -> c_int;
    select(count: c_int, read: Out<'_, fd_set>, write: Out<'_, fd_set>, except: Out<'_, fd_set>, timeout: Out<'_, timeval>) -> c_int;
    pselect(count: c_int, read: Out<'_, fd_set>, write: Out<'_, fd_set>, except: Out<'_, fd_set>, timeout: In<'_, timespec>, mask: In<'_, sigset_t>) -> c_int;
    epoll_create1(flags: c_int) -> c_int;
    epoll_ctl(ep: c_int, op: c_int, fd: c_int, event: Out<'_, epoll_event>) -> c_int;
    epoll_wait(ep: c_int, events: Out<'_, epoll_event>, most: c_int, timeout: c_int) -> c_int;
    epoll_pwait(ep: c_int, events: Out<'_, epoll_event>, most: c_int, timeout: c_int, mask: In<'_, sigset_t>) -> c_int;
    epoll_pwait2(ep: c_int, events: Out<'_, epoll_event>, most: c_int, timeout: In<'_, timespec>, mask: In<'_, sigset_t>) -> c_int;
    getrlimit(resource: c_uint, old: Out<'_, libc::rlimit>) -> c_int;
    setrlimit(resource: c_uint, new: In<'_, libc::rlimit>) -> c_int;
    prlimit(pid: pid_t, resource: c_uint, new: In<'_, libc::rlimit>, old: Out<'_, libc::rlimit>) -> c_int;
    sendfile(out: c_int, from: c_int, offset: Out<'_, off_t>, count: size_t) -> ssize_t;
    pipe(ends: Out<'_, c_int>) -> c_int;
    pipe2(ends: Out<'_, c_int>, flags: c_int) -> c_int;
    tee(from: c_int, to: c_int, len: size_t, flags: c_uint) -> ssize_t;
    vmsplice(fd: c_int, iov: In<'_, Buffer<'_>>, count: size_t, flags: c_uint) -> ssize_t;
    splice(from: c_int, from_at: Out<'_, i64>, to: c_int, to_at: Out<'_, i64>, len: size_t, flags: c_uint) -> ssize_t;
    getaddrinfo(node: Text<'_>, service: Text<'_>, hints: In<'_, addrinfo>, found: Out<'_, *mut addrinfo>) -> c_int;
    getnameinfo(addr: In<'_, sockaddr>, len: socklen_t, node: Out<'_, c_char>, node_len: socklen_t, service: Out<'_, c_char>, service_len: socklen_t, flags: c_int) -> c_int;
    fdopen(fd: c_int, mode: Text<'_>) -> Opaque<FILE>;
    fileno(file: Opaque<FILE>) -> c_int;
    vdprintf(fd: c_int, format: Format<'_>, arguments: VaList) -> c_int;
    __vdprintf_chk(fd: c_int, flag: c_int, format: Format<'_>, arguments: VaList) -> c_int;
    signal(signal: c_int, handler: Handler) -> Handler;
    __sysv_signal(signal: c_int, handler: Handler) -> Handler;
    sigset(signal: c_int, handler: Handler) -> Handler;
    siginterrupt(signal: c_int, interrupts: c_int) -> c_int;
    pthread_cancel(thread: libc::pthread_t) -> c_int;
    pthread_setcanceltype(kind: c_int, old: Out<'_, c_int>) -> c_int;
    execve(path: Text<'_>, argv: Strings<'_>, envp: Strings<'_>) -> c_int;
    execvpe(file: Text<'_>, argv: Strings<'_>, envp: Strings<'_>) -> c_int;
    fexecve(fd: c_int, argv: Strings<'_>, envp: Strings<'_>) -> c_int;
    execveat(directory: c_int, path: Text<'_>, argv: Strings<'_>, envp: Strings<'_>, flags: c_int) -> c_int;
    system(command: Text<'_>) -> c_int;
    popen(command: Text<'_>, mode: Text<'_>) -> Opaque<FILE>;
    posix_spawn_file_actions_adddup2(actions: Out<'_, posix_spawn_file_actions_t>, from: c_int, to: c_int) -> c_int;
    posix_spawn(pid: Out<'_, pid_t>, path: Text<'_>, actions: In<'_, posix_spawn_file_actions_t>, attr: In<'_, posix_spawnattr_t>, argv: Strings<'_>, envp: Strings<'_>) -> c_int;
    posix_spawnp(pid: Out<'_, pid_t>, file: Text<'_>, actions: In<'_, posix_spawn_file_actions_t>, attr: In<'_, posix_spawnattr_t>, argv: Strings<'_>, envp: Strings<'_>) -> c_int;
    pidfd_spawn(pidfd: Out<'_, c_int>, path: Text<'_>, actions: In<'_, posix_spawn_file_actions_t>, attr: In<'_, posix_spawnattr_t>, argv: Strings<'_>, envp: Strings<'_>) -> c_int;
    pidfd_spawnp(pidfd: Out<'_, c_int>, file: Text<'_>, actions: In<'_, posix_spawn_file_actions_t>, attr: In<'_, posix_spawnattr_t>, argv: Strings<'_>, envp: Strings<'_>) -> c_int;
    pidfd_getpid(fd: c_int) -> pid_t;
    fcntl(fd: c_int, cmd: c_int, arg: Argument<'_>) -> c_int;
    ioctl(fd: c_int, request: c_ulong, arg: Argument<'_>) -> c_int;
    prctl(option: c_int, a: Argument<'_>, b: Argument<'_>, c: Argument<'_>, d: Argument<'_>) -> c_int;
    fork() -> pid_t;
    _Fork() -> pid_t;
    sigaction(signal: c_int, new: In<'_, Action>, old: Out<'_, Action>) -> c_int;
    clone(run: Option<Run>, stack: Out<'_, c_void>, flags: c_int, argument: Out<'_, c_void>, parent: Out<'_, pid_t>, tls: Out<'_, c_void>, child: Out<'_, pid_t>) -> c_int;
}
