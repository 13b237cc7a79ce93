//! What an engine has done, said when it ends: `LONGSHORE_STAT_AT_EXIT` names a directory,
//! and each engine leaves there in `PID.json` what `longshore stat --json` would have said
//! last. An engine that is killed leaves an empty file.

use crate::errors::{Error, system};
use longshore_engine::Engine;
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// The variable that asks for it.
const VARIABLE: &str = "LONGSHORE_STAT_AT_EXIT";

/// Where an engine's last word goes. The file is opened while the engine may still open
/// files.
#[derive(Debug)]
pub(crate) struct LastStat(Option<File>);

impl LastStat {
    /// Opens the file of this process, if it is wanted.
    pub(crate) fn open() -> Result<Self, Error> {
        let Some(directory) = std::env::var_os(VARIABLE).filter(|d| !d.is_empty()) else {
            return Ok(LastStat(None));
        };
        let path = Path::new(&directory).join(format!("{}.json", std::process::id()));
        let what = format!("create {}, which {VARIABLE} asks for", path.display());
        let file = File::create(path).map_err(system(what))?;
        Ok(LastStat(Some(file)))
    }

    /// Writes it.
    pub(crate) fn write(self, engine: &Engine) {
        let Some(mut file) = self.0 else { return };
        let written = serde_json::to_vec(&engine.statistics())
            .map_err(std::io::Error::from)
            .and_then(|bytes| file.write_all(&bytes));
        if let Err(error) = written {
            crate::log::say(&format!("the last statistics are not written: {error}"));
        }
    }
}
