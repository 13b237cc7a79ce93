//! The library that goes into the program, and the environment that puts it
//! there.

use crate::errors::Error;
use longshore_hostif::attach::{ENGINE_VARIABLE, SESSION_VARIABLE, Token};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Its file name.
const LIBRARY: &str = "liblongshore_preload.so";
/// Names its path where it is somewhere else.
const VARIABLE: &str = "LONGSHORE_PRELOAD";

/// Finds the library: where `LONGSHORE_PRELOAD` says, beside this program, or
/// in `../lib/longshore` from there.
pub(crate) fn find() -> Result<PathBuf, Error> {
    let program = std::env::current_exe().unwrap_or_default();
    let program = program.canonicalize().unwrap_or(program);
    find_from(std::env::var_os(VARIABLE), &program)
}

fn find_from(named: Option<OsString>, program: &Path) -> Result<PathBuf, Error> {
    let candidates: Vec<PathBuf> = match named.filter(|n| !n.is_empty()) {
        Some(path) => vec![path.into()],
        None => {
            let beside = program.parent().unwrap_or(Path::new("."));
            let installed = beside.parent().unwrap_or(beside).join("lib/longshore");
            vec![beside.join(LIBRARY), installed.join(LIBRARY)]
        }
    };
    let found = candidates.iter().find_map(|path| path.canonicalize().ok());
    let path = found.ok_or(Error::PreloadMissing {
        name: LIBRARY,
        tried: candidates,
    })?;
    if path
        .as_os_str()
        .as_bytes()
        .iter()
        .any(|b| b" \t\n:".contains(b))
    {
        return Err(Error::PreloadPath(path));
    }
    Ok(path)
}

/// What is wrong with `LONGSHORE_LOG`, if anything is: the library takes what it does not know for
/// the default.
pub(crate) fn bad_log_level(level: Option<&OsStr>) -> Option<String> {
    let level = level.filter(|level| !level.is_empty())?;
    let known = ["error", "warn", "debug"];
    let is_known = known.iter().any(|known| level == OsStr::new(known));
    (!is_known).then(|| {
        let level = level.to_string_lossy();
        format!("LONGSHORE_LOG is `{level}`, which is none of error, warn and debug: warn it is")
    })
}

/// The variables that a program of a session needs: ours before what it
/// preloads anyway.
pub(crate) fn environment(
    library: &Path,
    preloaded: Option<OsString>,
    engine: &Path,
    token: Token,
) -> [(&'static str, OsString); 3] {
    let mut preload = library.as_os_str().to_owned();
    if let Some(others) = preloaded.filter(|p| !p.is_empty()) {
        preload.push(OsStr::new(":"));
        preload.push(others);
    }
    [
        ("LD_PRELOAD", preload),
        (ENGINE_VARIABLE, engine.as_os_str().to_owned()),
        (SESSION_VARIABLE, token.to_string().into()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_level_that_is_none_is_said() {
        for known in ["", "error", "warn", "debug"] {
            assert_eq!(bad_log_level(Some(OsStr::new(known))), None);
        }
        assert_eq!(bad_log_level(None), None);
        let said = bad_log_level(Some(OsStr::new("verbose"))).unwrap();
        assert!(
            said.contains("`verbose`") && said.contains("debug"),
            "{said}"
        );
    }

    #[test]
    fn the_library_is_found_beside_the_program_or_installed() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let (bin, lib) = (dir.join("bin"), dir.join("lib/longshore"));
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::create_dir_all(&lib).unwrap();
        let program = bin.join("longshore");
        let error = find_from(None, &program).unwrap_err();
        assert!(error.hint().unwrap().contains("lib/longshore"), "{error}");
        std::fs::write(lib.join(LIBRARY), "").unwrap();
        assert_eq!(find_from(None, &program).unwrap(), lib.join(LIBRARY));
        std::fs::write(bin.join(LIBRARY), "").unwrap();
        assert_eq!(find_from(None, &program).unwrap(), bin.join(LIBRARY));
        assert!(find_from(Some("/no/such.so".into()), &program).is_err());
        let spaced = dir.join("a b.so");
        std::fs::write(&spaced, "").unwrap();
        let error = find_from(Some(spaced.into()), &program).unwrap_err();
        assert!(matches!(error, Error::PreloadPath(_)));
    }

    #[test]
    fn what_was_preloaded_stays_so() {
        let token = Token([1; 16]);
        let vars = environment(
            Path::new("/a.so"),
            Some("/b.so".into()),
            Path::new("/s"),
            token,
        );
        assert_eq!(vars[0], ("LD_PRELOAD", "/a.so:/b.so".into()));
        assert_eq!(vars[1], ("LONGSHORE_ENGINE", "/s".into()));
        assert_eq!(vars[2].1, *token.to_string());
        let vars = environment(Path::new("/a.so"), None, Path::new("/s"), token);
        assert_eq!(vars[0].1, "/a.so");
    }
}
