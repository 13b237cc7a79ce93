//! `--awake`: the processors are held out of deep idle while this lives.

use crate::errors::Error;
use std::fs::{File, OpenOptions};
use std::io::Write;

/// The request; the kernel forgets it when the file is closed.
#[derive(Debug)]
pub(crate) struct Awake(#[expect(dead_code, reason = "held open")] File);

impl Awake {
    /// Asks that no idle state with a wake-up time be entered.
    pub(crate) fn hold() -> Result<Self, Error> {
        let open = OpenOptions::new().write(true).open("/dev/cpu_dma_latency");
        let mut file = open.map_err(Error::Awake)?;
        let microseconds = 0i32;
        file.write_all(&microseconds.to_ne_bytes())
            .map_err(Error::Awake)?;
        Ok(Awake(file))
    }
}
