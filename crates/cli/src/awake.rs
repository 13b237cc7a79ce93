//! `--awake`: the processors are held out of deep idle while this lives.

use crate::log::say;
use std::fs::{File, OpenOptions};
use std::io::Write;

/// The device that holds processors awake while it is open.
pub(crate) const DEVICE: &str = "/dev/cpu_dma_latency";

/// Names what chooses among idle states; without such a driver there is one state, and nothing
/// acts on the request.
const DRIVER: &str = "/sys/devices/system/cpu/cpuidle/current_driver";

/// Opens it.
pub(crate) fn open() -> std::io::Result<File> {
    OpenOptions::new().write(true).open(DEVICE)
}

/// The request; the kernel forgets it when the file is closed.
#[derive(Debug)]
pub(crate) struct Awake(#[expect(dead_code, reason = "held open")] File);

impl Awake {
    /// Asks that no idle state with a wake-up time be entered, by the device of that name.
    pub(crate) fn hold(device: std::io::Result<File>) -> std::io::Result<Self> {
        let mut file = device?;
        let microseconds = 0i32;
        file.write_all(&microseconds.to_ne_bytes())?;
        let driver = std::fs::read_to_string(DRIVER);
        if driver.is_ok_and(|name| is_none(&name)) {
            say(&format!(
                "warning: awake has no effect on this machine: its kernel has no driver of idle \
                 states ({DRIVER} says none), so processors without work halt as before"
            ));
        }
        Ok(Awake(file))
    }
}

/// Whether this is the name of no driver.
fn is_none(name: &str) -> bool {
    name.trim() == "none"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_have_names() {
        assert!(is_none("none\n"));
        assert!(!is_none("haltpoll\n") && !is_none("intel_idle\n"));
    }
}
