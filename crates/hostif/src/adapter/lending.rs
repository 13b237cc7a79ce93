//! The files and what is forwarded, as a session's send streams may have them: methods of
//! [`SendStreams`], which the stack and the engine's maintenance call.

use super::files::{Files, OfferedFile, SCRATCH};
use super::send_streams::SendStreams;
use longshore_ring::SharedMemory;
use std::sync::Arc;

impl SendStreams {
    /// Takes a file among those of the session, whose programs find it there; whether there is
    /// room. What is not taken is given back, as to close it may last. `now` is in microseconds.
    ///
    /// # Errors
    /// The file.
    pub fn lend_file(&mut self, file: OfferedFile, now: u64) -> Result<(), OfferedFile> {
        if !self.arena.takes_files() {
            return Err(file);
        }
        if self.files.is_none() {
            self.files = Files::new().map(Arc::new);
        }
        let Some(files) = self.files.as_mut().map(Arc::make_mut) else {
            return Err(file);
        };
        files.lend(file, &self.arena.header().files, now)
    }

    /// Looks at its files: lets go of those that were not used for 5 s and that no stream has a
    /// range of. Gives back what is to be closed where it may last. `now` is in microseconds.
    pub fn look_at_files(&mut self, now: u64) -> Vec<impl Send + 'static> {
        let Some(files) = self.files.as_mut().map(Arc::make_mut) else {
            return Vec::new();
        };
        let gone = files.let_go(&self.arena, now);
        if files.is_empty() {
            self.files = None;
        }
        gone
    }

    /// What its sockets have received may be in their send streams from now on; whether its
    /// programs may have it so.
    #[must_use]
    pub fn begin_forwards(&mut self) -> bool {
        if !self.arena.takes_forwards() {
            return false;
        }
        if self.scratch.is_none() {
            let scratch = SharedMemory::create("longshore-forward", SCRATCH);
            self.scratch = scratch.ok().map(Arc::new);
        }
        self.scratch.is_some()
    }
}
