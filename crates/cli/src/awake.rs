//! `--awake`: the processors are held out of deep idle while this lives.

use crate::errors::Error;
use std::fs::{File, OpenOptions};
use std::io::Write;

/// The device that holds processors awake while it is open.
pub(crate) const DEVICE: &str = "/dev/cpu_dma_latency";

/// Opens it.
pub(crate) fn open() -> std::io::Result<File> {
    OpenOptions::new().write(true).open(DEVICE)
}

/// The request; the kernel forgets it when the file is closed.
#[derive(Debug)]
pub(crate) struct Awake(#[expect(dead_code, reason = "held open")] File);

impl Awake {
    /// Asks that no idle state with a wake-up time be entered, by the device of that name.
    pub(crate) fn hold(device: std::io::Result<File>) -> Result<Self, Error> {
        let mut file = device.map_err(Error::Awake)?;
        let microseconds = 0i32;
        file.write_all(&microseconds.to_ne_bytes())
            .map_err(Error::Awake)?;
        Ok(Awake(file))
    }
}
