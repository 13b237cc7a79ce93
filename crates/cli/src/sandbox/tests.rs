use super::*;
use rustix::net::{AddressFamily, SocketType, socket};
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

/// A thread of its own, as all of it but the last filter holds for one thread.
fn apart<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(body).join().unwrap())
}

fn status(key: &str) -> String {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let mut lines = status.lines();
    let value = lines.find_map(|line| line.strip_prefix(key)).unwrap();
    value.trim_start_matches(':').trim().to_owned()
}

/// In a process of its own; the signal that has ended it, if one has.
fn ended_by(body: impl FnOnce()) -> Option<i32> {
    // SAFETY: nextest gives a test its process, and the child ends without running what the
    // parent is to run.
    let child = unsafe { libc::fork() };
    if child == 0 {
        body();
        // SAFETY: as above.
        unsafe { libc::_exit(0) }
    }
    let mut status = 0;
    // SAFETY: `status` has room for a status.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status))
}

#[test]
fn what_is_given_up_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let own = dir.path().join("longshore/7");
    std::fs::create_dir_all(&own).unwrap();
    std::fs::write(own.join("lock"), "").unwrap();
    let needs = Needs {
        own: Some(own.clone()),
        sockets_in: Vec::new(),
        relays_to: vec![7],
        shared: false,
    };
    apart(|| {
        let sandbox = Sandbox::enter(&needs).unwrap();
        assert_eq!(status("NoNewPrivs"), "1");
        for set in ["CapEff", "CapPrm", "CapInh", "CapAmb"] {
            assert_eq!(status(set), "0000000000000000", "{set}");
        }
        assert!(
            sandbox
                .words()
                .starts_with("no capabilities, no new privileges")
        );
        if sandbox.lacks().is_some() {
            return eprintln!("this kernel has no Landlock");
        }
        let denied = |path: &Path| File::open(path).unwrap_err().kind();
        assert_eq!(denied(&file), ErrorKind::PermissionDenied);
        assert_eq!(
            denied(Path::new("/etc/passwd")),
            ErrorKind::PermissionDenied
        );
        let removed = std::fs::remove_file(&file).unwrap_err();
        assert_eq!(removed.kind(), ErrorKind::PermissionDenied);
        let made = File::create(own.join("new")).unwrap_err();
        assert_eq!(made.kind(), ErrorKind::PermissionDenied);
        // What it needs.
        File::open("/proc/1/status").unwrap();
        File::open("/proc/sys/net/ipv4/tcp_sack").unwrap();
        std::fs::remove_dir_all(&own).unwrap();
        // Of ports, those that it relays to.
        let connect = |port| std::net::TcpStream::connect(("127.0.0.1", port)).unwrap_err();
        assert_ne!(connect(7).kind(), ErrorKind::PermissionDenied);
        assert_eq!(connect(9).kind(), ErrorKind::PermissionDenied);
    });
    assert!(!own.exists() && file.exists());
    // Other threads are as they were.
    File::open(&file).unwrap();
}

#[test]
fn an_engine_for_many_keeps_one_capability_if_it_has_it() {
    let shared = Needs {
        shared: true,
        ..Needs::default()
    };
    let all = rustix::thread::capabilities(None).unwrap().permitted;
    let kept = all & CapabilitySet::SYS_RESOURCE;
    apart(|| {
        let sandbox = Sandbox::enter(&shared).unwrap();
        let left = u64::from_str_radix(&status("CapEff"), 16).unwrap();
        assert_eq!(left, kept.bits());
        let says = sandbox.words().contains("CAP_SYS_RESOURCE");
        assert_eq!(says, !kept.is_empty());
    });
}

#[test]
fn names_of_capabilities_are_the_manuals() {
    let two = CapabilitySet::SYS_RESOURCE | CapabilitySet::NET_RAW;
    assert_eq!(capabilities::names(two), "CAP_NET_RAW, CAP_SYS_RESOURCE");
}

/// What becomes of a process that does something under a filter.
fn under(filter: Filter, body: fn()) -> Option<i32> {
    ended_by(|| {
        trap::set_handler().unwrap();
        filter.apply_to_this_thread().unwrap();
        body();
    })
}

fn makes_socket(family: AddressFamily, kind: SocketType) {
    drop(socket(family, kind, None));
}

#[test]
fn what_an_engine_does_is_permitted() {
    let all: [(&str, fn()); 9] = [
        ("files are read", || {
            std::fs::read_to_string("/proc/self/status").unwrap();
        }),
        ("threads", || std::thread::spawn(|| ()).join().unwrap()),
        ("memory", || drop(vec![1u8; 8 << 20])),
        ("arenas", || {
            let memory = longshore_ring::SharedMemory::create("test", 1 << 20).unwrap();
            memory.release(0, 4096).unwrap();
        }),
        ("signals for owners", || {
            let (family, flags) = (AddressFamily::UNIX, rustix::net::SocketFlags::CLOEXEC);
            rustix::net::socketpair(family, SocketType::STREAM, flags, None).unwrap();
        }),
        ("whether a process is there", || {
            rustix::process::test_kill_process(rustix::process::getpid()).unwrap();
        }),
        ("a panic", || {
            std::panic::catch_unwind(|| panic!("on purpose")).unwrap_err();
        }),
        ("its own priority", || {
            let _ = rustix::process::setpriority_process(None, 0);
        }),
        ("its limits", || {
            rustix::process::getrlimit(rustix::process::Resource::Nofile);
        }),
    ];
    for (what, body) in all {
        assert_eq!(under(Filter::of_engine(false), body), None, "{what}");
    }
}

#[test]
fn a_forbidden_call_ends_the_process() {
    let all: [(&str, fn()); 16] = [
        ("a file is written", || drop(File::create("/dev/null"))),
        ("Unix sockets", || {
            makes_socket(AddressFamily::UNIX, SocketType::STREAM);
        }),
        ("TCP", || {
            makes_socket(AddressFamily::INET, SocketType::STREAM)
        }),
        ("netlink", || {
            makes_socket(AddressFamily::NETLINK, SocketType::RAW);
        }),
        ("another's priority", || {
            let _ = rustix::process::setpriority_process(rustix::process::getppid(), 0);
        }),
        ("a signal", || {
            let _ = rustix::process::kill_current_process_group(rustix::process::Signal::CONT);
        }),
        ("directories", || {
            let _ = rustix::process::chdir("/");
        }),
        ("modes of files", || {
            let _ = rustix::fs::chmod("/nowhere", 0o4755.into());
        }),
        ("names of files", || {
            drop(std::fs::rename("/nowhere", "/nothing"));
        }),
        ("programs", || {
            drop(std::process::Command::new("/bin/true").status());
        }),
        ("namespaces", || {
            // SAFETY: it touches no memory.
            unsafe { libc::unshare(libc::CLONE_NEWUSER) };
        }),
        ("other processes", || {
            // SAFETY: it touches no memory.
            unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) };
        }),
        ("processes of its own", || {
            // SAFETY: a child, if there were one, would end as its parent.
            unsafe { libc::fork() };
        }),
        ("code", || {
            let (exec, map) = (libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE);
            let flags = map | libc::MAP_ANONYMOUS;
            // SAFETY: a mapping at an address of the kernel's choosing replaces nothing.
            unsafe { libc::mmap(std::ptr::null_mut(), 4096, exec, flags, -1, 0) };
        }),
        ("what a terminal's user types", || {
            // SAFETY: it reads one byte, which is there.
            unsafe { libc::ioctl(0, libc::TIOCSTI, c"x".as_ptr()) };
        }),
        ("its limits", || {
            let none = rustix::process::Rlimit {
                current: None,
                maximum: None,
            };
            let _ = rustix::process::setrlimit(rustix::process::Resource::Core, none);
        }),
    ];
    for (what, body) in all {
        let signal = under(Filter::of_engine(false), body);
        assert_eq!(signal, Some(libc::SIGSYS), "{what}");
    }
}

/// The log has what was wrong.
#[test]
fn a_forbidden_call_is_named() {
    let (read, write) = rustix::pipe::pipe().unwrap();
    let signal = ended_by(|| {
        rustix::stdio::dup2_stderr(&write).unwrap();
        trap::set_handler().unwrap();
        Filter::of_engine(false).apply_to_this_thread().unwrap();
        let _ = rustix::process::chdir("/");
    });
    assert_eq!(signal, Some(libc::SIGSYS));
    drop(write);
    let mut said = String::new();
    std::io::Read::read_to_string(&mut File::from(read), &mut said).unwrap();
    assert!(
        said.contains(&format!("the system call chdir ({})", libc::SYS_chdir)),
        "{said}"
    );
}

#[test]
fn what_there_is_of_it_is_said() {
    let sandbox = |holds: &[&str], lacks: &[&str]| Sandbox {
        holds: holds.iter().map(ToString::to_string).collect(),
        lacks: lacks.iter().map(ToString::to_string).collect(),
        filter: None,
    };
    assert_eq!(Sandbox::off().words(), "off");
    assert_eq!(sandbox(&["a", "b"], &[]).words(), "a, b");
    let some = sandbox(&["a"], &["b (why)"]);
    assert_eq!(some.words(), "a; not here: b (why)");
    assert_eq!(some.lacks().unwrap(), "b (why)");
}

#[test]
fn relays_have_sockets_and_no_others() {
    let of: [(fn(), Option<i32>); 4] = [
        (
            || makes_socket(AddressFamily::INET, SocketType::STREAM),
            None,
        ),
        (
            || makes_socket(AddressFamily::INET6, SocketType::DGRAM),
            None,
        ),
        (
            || makes_socket(AddressFamily::INET, SocketType::RAW),
            Some(libc::SIGSYS),
        ),
        (
            || makes_socket(AddressFamily::UNIX, SocketType::STREAM),
            Some(libc::SIGSYS),
        ),
    ];
    for (body, signal) in of {
        assert_eq!(under(Filter::of_engine(true), body), signal);
    }
}
