//! Older kernels than this one, as far as system calls that they do not have tell of them
//! (`programs/older.c`): from Linux 5.3 on programs are served; what needs more says so.

use longshore_e2e::{Testbed, conformance, longshore, run_uncounted, scenarios};
use std::ffi::OsStr;
use std::time::Duration;

/// `longshore` with these arguments on the peer, as on a kernel of this version: its exit code
/// and what it says.
fn as_on(bed: &Testbed, version: &str, arguments: &str) -> (Option<i32>, String) {
    let older = conformance::compile(bed, "older");
    let command = bed.peer().cmd(older).arg(version).arg(longshore());
    let finished = command.args(arguments.split_whitespace()).run();
    (finished.status.code(), finished.stderr)
}

/// A scenario in which no engine carries anything.
fn refused(scenario: impl FnOnce(&Testbed) + Send + 'static) {
    run_uncounted(
        longshore_e2e::Stack::Longshore,
        Duration::from_secs(60),
        scenario,
    );
}

scenarios! {
    /// All that programs do with streams.
    fn streams_on_linux_5_3(bed) within 300 {
        let older = conformance::compile(bed, "older");
        conformance::run_by(bed, "stream", &[older.as_os_str(), OsStr::new("5.3")]);
    }

    /// And with datagrams.
    fn datagrams_on_linux_5_3(bed) within 300 {
        let older = conformance::compile(bed, "older");
        conformance::run_by(bed, "datagram", &[older.as_os_str(), OsStr::new("5.3")]);
    }
}

/// Without word of programs that end there is no engine: their connections would stay for ever.
#[test]
fn a_kernel_that_is_too_old_is_told_of() {
    refused(|bed| {
        for (version, is_served) in [("5.2", false), ("5.3", true)] {
            let (code, said) = as_on(bed, version, "run -- true");
            assert_eq!(code, Some(if is_served { 0 } else { 125 }), "{said}");
            assert_eq!(said.contains("needs Linux 5.3"), !is_served, "{said}");
        }
        // A shared engine, too, before it makes anything.
        let config =
            "port = \"tap:old0\"\naddress = \"10.77.9.2/24\"\nsocket = \"/nonexistent/s\"\n";
        let config = bed.file("engine.toml", config);
        let (code, said) = as_on(bed, "5.2", &format!("engine --config {}", config.display()));
        assert_eq!(code, Some(125), "{said}");
        assert!(said.contains("needs Linux 5.3"), "{said}");
    });
}

/// Pages are exchanged where the kernel says what is mapped; who asks for it elsewhere is told.
#[test]
fn page_exchange_that_cannot_be_is_told_of() {
    refused(|bed| {
        let run = |version, when| as_on(bed, version, &format!("run --zero-copy {when} -- true"));
        for (version, when, code, is_told) in [
            ("6.10", "always", 125, true),
            ("6.10", "auto", 0, true),
            ("6.10", "never", 0, false),
            ("6.11", "always", 0, false),
            ("6.11", "auto", 0, false),
        ] {
            let (ended, said) = run(version, when);
            assert_eq!(ended, Some(code), "{version} {when}: {said}");
            assert_eq!(said.contains("6.11"), is_told, "{version} {when}: {said}");
        }
    });
}
