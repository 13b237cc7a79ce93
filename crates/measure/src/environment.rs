//! The machine that a figure was measured on, and its idle mode.

use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};

/// What a reader must know of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// The processor's name.
    pub processor: String,
    /// How many of them.
    pub processors: usize,
    /// The kernel's release.
    pub kernel: String,
    /// Congestion control of kernel ends, which the testbed pins.
    pub congestion_control: String,
}

impl Environment {
    /// That of this machine.
    #[must_use]
    pub fn here() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let processor = cpuinfo
            .lines()
            .find_map(|l| l.strip_prefix("model name")?.split_once(": "))
            .map_or("unknown", |(_, name)| name)
            .to_owned();
        Environment {
            processor,
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
                .unwrap_or_default()
                .trim()
                .to_owned(),
            congestion_control: "cubic".to_owned(),
        }
    }
}

/// Names what chooses among idle states. Without such a driver nothing heeds the request.
const DRIVER: &str = "/sys/devices/system/cpu/cpuidle/current_driver";

/// While it lives, idle processors do not sleep, so a wake-up takes one or two
/// microseconds instead of tens.
#[derive(Debug)]
pub struct Awake {
    _request: File,
}

impl Awake {
    /// Whether it makes a difference: the kernel has idle states to choose from.
    #[must_use]
    pub fn has_effect() -> bool {
        let driver = fs::read_to_string(DRIVER).unwrap_or_default();
        !matches!(driver.trim(), "none" | "")
    }

    /// Asks the kernel for it.
    ///
    /// # Errors
    /// Without root, or on a machine without the device.
    pub fn hold() -> io::Result<Self> {
        let mut request = OpenOptions::new()
            .write(true)
            .open("/dev/cpu_dma_latency")?;
        request.write_all(&0_i32.to_ne_bytes())?;
        Ok(Awake { _request: request })
    }
}
