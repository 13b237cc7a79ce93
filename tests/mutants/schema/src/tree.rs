//! The copy of the repository in which a crate is rewritten, and which of its files are the
//! code under test.

use crate::find::Submodule;
use std::collections::BTreeSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A copy of the repository's files.
pub struct Tree {
    /// Its directory.
    pub root: PathBuf,
    files: BTreeSet<PathBuf>,
}

impl Tree {
    /// Copies what git knows of, or would, to `root`. What is there as it should be keeps its
    /// time of change, for cargo.
    pub fn copy(repository: &Path, root: &Path) -> io::Result<Self> {
        let listed = Command::new("git")
            .args([
                "ls-files",
                "--cached",
                "--others",
                "--exclude-standard",
                "-z",
            ])
            .current_dir(repository)
            .output()?;
        if !listed.status.success() {
            return Err(io::Error::other(
                String::from_utf8_lossy(&listed.stderr).into_owned(),
            ));
        }
        let names = String::from_utf8_lossy(&listed.stdout).into_owned();
        let files: BTreeSet<PathBuf> = names
            .split_terminator('\0')
            .map(PathBuf::from)
            .filter(|name| repository.join(name).is_file())
            .collect();
        for name in &files {
            let to = root.join(name);
            let is = repository.join(name);
            put(&to, &fs::read(&is)?)?;
            fs::set_permissions(&to, fs::metadata(&is)?.permissions())?;
        }
        remove_others(root, root, &files)?;
        Ok(Self {
            root: root.to_owned(),
            files,
        })
    }

    /// Writes a file of the copy.
    pub fn write(&self, name: &str, text: &str) -> io::Result<()> {
        put(&self.root.join(name), text.as_bytes())
    }

    /// Reads a file of the copy.
    pub fn read(&self, name: &str) -> io::Result<String> {
        fs::read_to_string(self.root.join(name))
    }

    /// A word for the state of all that is compiled.
    pub fn fingerprint(&self) -> io::Result<String> {
        let mut hash = DefaultHasher::new();
        for name in &self.files {
            if name.starts_with("crates")
                || name
                    .extension()
                    .is_some_and(|end| end == "lock" || end == "toml")
            {
                name.hash(&mut hash);
                fs::read(self.root.join(name))?.hash(&mut hash);
            }
        }
        Ok(format!("{:016x}", hash.finish()))
    }
}

/// A word for a text.
pub fn fingerprint(text: &str) -> String {
    let mut hash = DefaultHasher::new();
    text.hash(&mut hash);
    format!("{:016x}", hash.finish())
}

/// The file of a module that `file` names.
pub fn submodule(root: &Path, file: &str, module: &Submodule) -> Option<String> {
    let path = Path::new(file);
    let stem = path.file_stem()?.to_str()?;
    let mut place = path.parent()?.to_owned();
    if !["lib", "main", "mod"].contains(&stem) {
        place.push(stem);
    }
    place.extend(module);
    [place.with_extension("rs"), place.join("mod.rs")]
        .into_iter()
        .find(|name| root.join(name).is_file())
        .map(|name| name.to_string_lossy().into_owned())
}

fn put(to: &Path, bytes: &[u8]) -> io::Result<()> {
    if fs::read(to).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    if let Some(directory) = to.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(to, bytes)
}

/// What is in the copy and not of it. Cargo.lock gets a package more.
fn remove_others(root: &Path, directory: &Path, files: &BTreeSet<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(root, &path, files)?;
        } else if path
            .strip_prefix(root)
            .is_ok_and(|name| !files.contains(name))
        {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_found_where_the_compiler_looks_for_them() {
        let root = std::env::temp_dir().join(format!("longshore-mutants-{}", std::process::id()));
        for name in ["src/a.rs", "src/a/b.rs", "src/c/mod.rs", "src/a/inner/d.rs"] {
            put(&root.join(name), b"").unwrap();
        }
        let found = |file: &str, module: &[&str]| {
            let module = module.iter().map(ToString::to_string).collect();
            submodule(&root, file, &module)
        };
        assert_eq!(found("src/lib.rs", &["a"]).as_deref(), Some("src/a.rs"));
        assert_eq!(found("src/a.rs", &["b"]).as_deref(), Some("src/a/b.rs"));
        assert_eq!(
            found("src/a.rs", &["inner", "d"]).as_deref(),
            Some("src/a/inner/d.rs")
        );
        assert_eq!(found("src/lib.rs", &["c"]).as_deref(), Some("src/c/mod.rs"));
        assert_eq!(found("src/lib.rs", &["missing"]), None);
        fs::remove_dir_all(&root).unwrap();
    }
}
