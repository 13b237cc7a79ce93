//! What can go wrong when crossings are measured.

use crate::installed::Missing;
use std::path::PathBuf;

/// Why crossings could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum CrossingError {
    /// A program that is measured is not installed.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// A program could not be started, or ended too soon.
    #[error("{program}: {why}")]
    Program {
        /// Which.
        program: String,
        /// Its end, and what it said.
        why: String,
    },
    /// The engine does not say what it has counted.
    #[error("`longshore stat` does not answer: {0}")]
    Stat(String),
    /// The frames cannot be read.
    #[error("cannot read the capture {path}: {why}")]
    Capture {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The server did not answer as it should.
    #[error("the server's answer to {request}: {why}")]
    Answer {
        /// What was asked for.
        request: String,
        /// What is wrong.
        why: String,
    },
    /// A system call failed.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// Why not.
        source: std::io::Error,
    },
    /// The plot cannot be drawn.
    #[error("cannot draw {path}: {why}")]
    Plot {
        /// The file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
}

/// Makes a [`CrossingError::System`] of a system call's failure.
pub(crate) fn system<E: Into<std::io::Error>>(
    what: impl Into<String>,
) -> impl FnOnce(E) -> CrossingError {
    let what = what.into();
    move |source| CrossingError::System {
        what,
        source: source.into(),
    }
}
