//! Programs that experiments run: where they are, and which package brings them; and how
//! those of this crate's own are called.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The word after which this program runs one of [`crate::programs`].
pub const WORD: &str = "__program";

/// The command line by which `longshore` does: `words` are the program's name and arguments.
pub(crate) fn own(longshore: &Path, words: &[&str]) -> Vec<OsString> {
    let words = [WORD].iter().chain(words).map(OsString::from);
    [longshore.into()].into_iter().chain(words).collect()
}

/// A program that an experiment needs is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{program} is not installed, or not in PATH")]
pub struct Missing {
    /// Its name.
    pub program: &'static str,
    /// Debian's package that has it.
    pub package: &'static str,
}

/// Programs, and Debian's packages that have them.
const PACKAGES: [(&str, &str); 9] = [
    ("nginx", "nginx-light"),
    ("lighttpd", "lighttpd"),
    ("wrk", "wrk"),
    ("httperf", "httperf"),
    ("redis-server", "redis-server"),
    ("redis-benchmark", "redis-tools"),
    ("valgrind", "valgrind"),
    ("perf", "linux-perf"),
    ("ip", "iproute2"),
];

/// Finds a program in PATH, or where Debian and others have servers, which need not be in an
/// ordinary user's PATH.
///
/// # Errors
/// [`Missing`].
pub fn find(program: &'static str) -> Result<PathBuf, Missing> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    let found = std::env::split_paths(&path)
        .chain(usual)
        .map(|directory| directory.join(program))
        .find(|file| file.is_file());
    let package = PACKAGES.iter().find(|(name, _)| *name == program);
    found.ok_or(Missing {
        program,
        package: package.map_or(program, |(_, package)| package),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_package() {
        assert!(find("sh").is_ok());
        let missing = find("no-such-program").unwrap_err();
        assert!(missing.to_string().contains("no-such-program"));
        for (program, package) in PACKAGES {
            if let Err(missing) = find(program) {
                assert_eq!(missing.package, package);
            }
        }
    }
}
