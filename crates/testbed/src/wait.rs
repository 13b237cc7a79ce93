//! Waiting for what must come.

use std::time::{Duration, Instant};

/// How long anything may take that takes a moment: machines are slow, and busy with
/// other tests. Who waits for longer waits in vain.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `condition` gives something.
///
/// # Panics
/// If it does not within [`PATIENCE`].
pub fn eventually<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        // The last look comes after the deadline, however long we were kept from it.
        let is_late = Instant::now() >= deadline;
        if let Some(value) = condition() {
            return value;
        }
        assert!(!is_late, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
