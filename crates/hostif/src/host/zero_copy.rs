//! Whether what a program receives is shown to it where it lies, and what it sends is sent from
//! where its memory shows it, instead of copied: what `longshore run --zero-copy` says, and how
//! the shim is told of it.

use std::str::FromStr;

/// Bytes of a page, where pages are exchanged: the parts of a session's memory begin with one of
/// these, and with none of the larger ones that kernels for AArch64 may have.
pub const ZERO_COPY_PAGE: usize = 4096;
/// The environment variable by which the launcher tells the shim: `always` or `auto`.
pub const ZERO_COPY_VARIABLE: &str = "LONGSHORE_ZERO_COPY";

/// When pages take the place of copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ZeroCopy {
    /// Never: all is copied.
    #[default]
    Never,
    /// Where it was measured to be cheaper, when the process first receives or sends so much
    /// at once.
    Auto,
    /// Wherever it can be.
    Always,
}

impl ZeroCopy {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Auto => "auto",
            Self::Always => "always",
        }
    }
}

/// A word that is none of `always`, `auto` and `never`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("write always, auto or never")]
pub struct NoZeroCopy;

impl FromStr for ZeroCopy {
    type Err = NoZeroCopy;

    fn from_str(word: &str) -> Result<Self, NoZeroCopy> {
        let all = [Self::Never, Self::Auto, Self::Always];
        let found = all.into_iter().find(|mode| mode.name() == word);
        found.ok_or(NoZeroCopy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_the_name_that_it_is_asked_for_by() {
        use ZeroCopy::*;
        for (mode, name) in [(Never, "never"), (Auto, "auto"), (Always, "always")] {
            assert_eq!((mode.name(), name.parse()), (name, Ok(mode)));
        }
        assert_eq!("ever".parse::<ZeroCopy>(), Err(NoZeroCopy));
    }
}
