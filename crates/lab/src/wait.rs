//! Waiting for what must come.

use std::time::{Duration, Instant};

/// Waits until `condition` gives something.
///
/// # Panics
/// If it does not within `limit`.
pub fn eventually<T>(what: &str, limit: Duration, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < deadline, "{what}: not within {limit:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
