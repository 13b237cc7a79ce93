//! Waiting for a condition.

use std::time::{Duration, Instant};

/// Time limit for operations that should be fast: machines may be slow, and busy with
/// other tests.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Waits until `condition` returns a value.
///
/// # Panics
/// If it does not within [`TIMEOUT`].
pub fn eventually<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        // The condition is checked once more after the deadline, however late this thread runs.
        let is_late = Instant::now() >= deadline;
        if let Some(value) = condition() {
            return value;
        }
        assert!(!is_late, "{what}: not within {TIMEOUT:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
