//! How a scenario runs: with a time limit, a testbed of its own, and its
//! programs' last output if it fails.

use crate::{Stack, TIMEOUT, Testbed};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Runs a scenario on `stack`; it fails if it is not done within `limit`, or if, on
/// Longshore, no engine has carried anything by its own counters.
///
/// # Panics
/// If the scenario does, or takes too long.
pub fn run(stack: Stack, limit: Duration, scenario: impl FnOnce(&Testbed) + Send + 'static) {
    run_uncounted(stack, limit, |bed| {
        scenario(bed);
        // A scenario that kills its engines has asked before.
        if !bed.is_known_to_have_carried() {
            bed.assert_carried();
        }
    });
}

/// Runs a scenario in which nothing is to be carried, or whose engines are killed
/// before they can say what they have.
///
/// # Panics
/// If the scenario does, or takes too long.
pub fn run_uncounted(
    stack: Stack,
    limit: Duration,
    scenario: impl FnOnce(&Testbed) + Send + 'static,
) {
    let bed = Arc::new(Testbed::new(stack));
    let (done, is_done) = mpsc::channel();
    let body = {
        let bed = Arc::clone(&bed);
        std::thread::spawn(move || {
            let result = catch_unwind(AssertUnwindSafe(|| scenario(&bed)));
            let _ = done.send(());
            result
        })
    };
    let in_time = is_done.recv_timeout(limit).is_ok();
    if !in_time {
        eprintln!("the scenario takes longer than {limit:?}");
        bed.print_logs();
        // Without its programs the scenario cannot go on.
        bed.kill_all();
        assert!(
            is_done.recv_timeout(TIMEOUT).is_ok(),
            "the scenario hangs, even with all its programs killed"
        );
    }
    let result = body.join().expect("panics are caught");
    if let Err(panic) = result {
        if in_time {
            bed.print_logs();
        }
        resume_unwind(panic);
    }
    assert!(in_time, "the scenario took longer than {limit:?}");
}

/// `long` in a soak run (`make soak`), `short` otherwise.
#[must_use]
pub fn soak<T>(short: T, long: T) -> T {
    if std::env::var_os("LONGSHORE_SOAK").is_some() {
        long
    } else {
        short
    }
}

/// Makes two tests of each scenario, one for each stack:
///
/// ```ignore
/// scenarios! {
///     /// What it shows.
///     fn name(testbed) within 300 { ... }
/// }
/// ```
#[macro_export]
macro_rules! scenarios {
    ($(
        $(#[doc = $doc:literal])*
        fn $name:ident($bed:ident) within $seconds:literal $body:block
    )*) => {$(
        $(#[doc = $doc])*
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            fn scenario($bed: &$crate::Testbed) $body

            #[test]
            fn kernel() {
                $crate::run($crate::Stack::Kernel, std::time::Duration::from_secs($seconds), scenario);
            }

            #[test]
            fn longshore() {
                $crate::run($crate::Stack::Longshore, std::time::Duration::from_secs($seconds), scenario);
            }
        }
    )*};
}
