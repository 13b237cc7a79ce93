//! Where running engines are found: a directory for each, `engine` and
//! `control` sockets in it.
//!
//! Root's are under `/run/longshore`, another user's under
//! `$XDG_RUNTIME_DIR/longshore`, or `/tmp/longshore-UID` where that directory is
//! missing. Root is shown those of all users, and others those of root's engines that serve
//! them. With `$LONGSHORE_RUNTIME_DIR` they are there, and no others are known.

use crate::errors::Error;
use rustix::fs::{FlockOperation, Mode, flock, mkdir};
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The name of the socket at which programs join.
const ENGINE: &str = "engine";
/// The name of the control socket.
pub(crate) const CONTROL: &str = "control";

/// The name of the file in which a transport says what it does.
const TRANSPORT: &str = "transport";

/// The directory of root's engines.
const OF_ROOT: &str = "/run/longshore";

/// The directory that somebody wants instead of the usual ones.
fn wanted() -> Option<PathBuf> {
    let dir = std::env::var_os("LONGSHORE_RUNTIME_DIR")?;
    Some(PathBuf::from(dir)).filter(|dir| dir.is_absolute())
}

/// The directory that holds those of all engines of this user.
pub(crate) fn base() -> PathBuf {
    if let Some(wanted) = wanted() {
        return wanted;
    }
    let uid = rustix::process::geteuid().as_raw();
    if uid == 0 {
        return PathBuf::from(OF_ROOT);
    }
    match std::env::var_os("XDG_RUNTIME_DIR")
        .filter(|d| Path::new(d).is_absolute() && Path::new(d).is_dir())
    {
        Some(dir) => Path::new(&dir).join("longshore"),
        None => PathBuf::from(format!("/tmp/longshore-{uid}")),
    }
}

/// The name of the file that is locked for as long as the engine's directory is in use: a
/// pid says nothing to engines in other namespaces of pids that share the directory.
const LOCK: &str = "lock";

/// The directory of an engine; removed with everything in it when dropped.
#[derive(Debug)]
pub(crate) struct RuntimeDir(
    PathBuf,
    #[expect(dead_code, reason = "locked until dropped")] File,
);

impl RuntimeDir {
    /// Makes the directory of the engine that this process has.
    pub(crate) fn create() -> Result<Self, Error> {
        Self::create_in(&base())
    }

    fn create_in(base: &Path) -> Result<Self, Error> {
        let parent = base.parent().unwrap_or(base);
        std::fs::create_dir_all(parent).map_err(|error| unusable(parent, error))?;
        make(base, Mode::from_raw_mode(0o755))?;
        // One at a time: a directory that is made and not yet locked looks left behind.
        let alone = lock_file(&base.join(LOCK)).map_err(|error| unusable(base, error))?;
        flock(&alone, FlockOperation::LockExclusive).map_err(|errno| unusable(base, errno))?;
        remove_dead(base);
        let pid = std::process::id();
        // Those of the same pid that are left are used from other namespaces.
        let names = (0..1000).map(|n| match n {
            0 => pid.to_string(),
            n => format!("{pid}-{n}"),
        });
        let mut free = names
            .map(|name| base.join(name))
            .filter(|path| std::fs::symlink_metadata(path).is_err());
        let path = free
            .next()
            .ok_or_else(|| unusable(base, "too many engines are running"))?;
        make(&path, Mode::RWXU)?;
        let lock = lock_file(&path.join(LOCK)).map_err(|error| unusable(&path, error))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|errno| unusable(&path, errno))?;
        Ok(RuntimeDir(path, lock))
    }

    /// Says who may connect. To a user's engine, that user alone; to root's, programs of
    /// all users who have the token of a session there (`others`): a program that is
    /// started as root may be another user's when it makes its first socket. The control
    /// socket stays its owner's.
    pub(crate) fn let_programs_in(&self, others: bool) -> Result<(), Error> {
        let (engine, dir) = if others {
            (0o666, 0o711)
        } else {
            (0o600, 0o700)
        };
        let modes = [
            (self.control(), 0o600),
            (self.engine(), engine),
            (self.0.clone(), dir),
        ];
        // The host's end of a link is no engine, and has no control socket.
        for (path, mode) in modes.into_iter().filter(|(path, _)| path.exists()) {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&path, mode).map_err(|error| unusable(&path, error))?;
        }
        Ok(())
    }

    /// Lets everybody ask an engine that serves all users; it tells each user of
    /// that user's own.
    pub(crate) fn let_everybody_ask(&self) -> Result<(), Error> {
        for (path, mode) in [(self.control(), 0o666), (self.0.clone(), 0o711)] {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&path, mode).map_err(|error| unusable(&path, error))?;
        }
        Ok(())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn engine(&self) -> PathBuf {
        self.0.join(ENGINE)
    }

    pub(crate) fn control(&self) -> PathBuf {
        self.0.join(CONTROL)
    }

    pub(crate) fn transport(&self) -> PathBuf {
        self.0.join(TRANSPORT)
    }
}

impl Drop for RuntimeDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn unusable(path: &Path, why: impl ToString) -> Error {
    Error::RuntimeDir {
        path: path.to_owned(),
        why: why.to_string(),
    }
}

/// Makes a directory, or makes sure that the one there is ours and nobody else
/// can put anything into it.
fn make(path: &Path, mode: Mode) -> Result<(), Error> {
    match mkdir(path, mode) {
        Ok(()) => {
            // The mask may have taken bits away.
            let wanted = std::fs::Permissions::from_mode(mode.as_raw_mode());
            std::fs::set_permissions(path, wanted).map_err(|error| unusable(path, error))
        }
        Err(Errno::EXIST) => {
            let meta = std::fs::symlink_metadata(path).map_err(|error| unusable(path, error))?;
            if !meta.is_dir() {
                Err(unusable(path, "it is not a directory"))
            } else if meta.uid() != rustix::process::geteuid().as_raw() {
                Err(unusable(path, "it belongs to another user"))
            } else if meta.mode() & 0o022 != 0 {
                Err(unusable(path, "other users may write to it"))
            } else if meta.mode() & 0o777 != mode.as_raw_mode() {
                // An older version's, which others could not look into.
                let wanted = std::fs::Permissions::from_mode(mode.as_raw_mode());
                std::fs::set_permissions(path, wanted).map_err(|error| unusable(path, error))
            } else {
                Ok(())
            }
        }
        Err(errno) => Err(unusable(path, errno)),
    }
}

fn pid_of(path: &Path) -> Option<u32> {
    path.file_name()?.to_str()?.parse().ok()
}

/// Opens a file that is only locked, and that nobody else can open to lock it.
fn lock_file(path: &Path) -> std::io::Result<File> {
    File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(path)
}

/// Whether nobody uses an engine's directory any more.
fn is_dead(path: &Path) -> bool {
    match File::open(path.join(LOCK)) {
        Ok(lock) => flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok(),
        // Of an engine that was killed before it had locked it.
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// Removes what engines left behind that were killed.
fn remove_dead(base: &Path) {
    let is_engines = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.split('-').all(|part| part.parse::<u32>().is_ok()))
    };
    for path in entries(base).into_iter().filter(is_engines) {
        if is_dead(&path) {
            let _ = std::fs::remove_dir_all(path);
        }
    }
}

fn entries(base: &Path) -> Vec<PathBuf> {
    let Ok(list) = std::fs::read_dir(base) else {
        return Vec::new();
    };
    let mut paths: Vec<_> = list.filter_map(|e| Some(e.ok()?.path())).collect();
    paths.sort_by_key(|path| (pid_of(path), path.clone()));
    paths
}

/// Where this user may look for engines: under its own directory and root's, and root under
/// those of the others.
fn bases() -> Vec<PathBuf> {
    let mut all = vec![base()];
    if wanted().is_some() {
        return all;
    }
    if rustix::process::geteuid().is_root() {
        all.extend(bases_of_others(Path::new("/run/user"), Path::new("/tmp")));
    } else {
        all.push(PathBuf::from(OF_ROOT));
    }
    all
}

/// The directories of users, by the names that [`base`] gives them. In a directory that
/// all may write to, one that another user has made is passed over.
fn bases_of_others(runtime: &Path, shared: &Path) -> Vec<PathBuf> {
    let is_of = |path: &Path, uid: u32| {
        std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir() && meta.uid() == uid)
    };
    let uid_of = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let in_runtime = entries(runtime)
        .into_iter()
        .filter_map(|path| Some((uid_of(&path)?, path.join("longshore"))));
    let in_shared = entries(shared).into_iter().filter_map(|path| {
        let uid = path.file_name()?.to_str()?.strip_prefix("longshore-")?;
        Some((uid.parse().ok()?, path.clone()))
    });
    let mut all: Vec<_> = in_runtime.chain(in_shared).collect();
    all.retain(|(uid, path)| is_of(path, *uid));
    all.into_iter().map(|(_, path)| path).collect()
}

/// The control sockets of all engines that this user may ask, dead ones included.
pub(crate) fn control_sockets() -> Vec<PathBuf> {
    let all = bases().into_iter().flat_map(|base| entries(&base));
    all.map(|dir| dir.join(CONTROL))
        .filter(|path| path.exists())
        .collect()
}

/// The reports of all transports that this user may see: those beside the directory of the
/// engine with this control socket among them.
pub(crate) fn transport_reports(control: &Path) -> Vec<PathBuf> {
    let beside = control.ancestors().nth(2).map(Path::to_owned);
    let mut bases = bases();
    bases.extend(beside.filter(|dir| !bases.contains(dir)));
    let all = bases.into_iter().flat_map(|base| entries(&base));
    all.filter(|dir| !is_dead(dir))
        .map(|dir| dir.join(TRANSPORT))
        .filter(|path| path.exists())
        .collect()
}

/// The control socket of the engine that a user names by its directory, or one of the
/// sockets there, or by the pid that its directory is called after.
pub(crate) fn control_socket_of(engine: &Path) -> Result<PathBuf, Error> {
    let by_pid = bases().into_iter().map(|base| base.join(engine));
    let by_name = [
        engine.join(CONTROL),
        PathBuf::from(format!("{}.{CONTROL}", engine.display())),
        engine.with_file_name(CONTROL),
    ];
    let candidates = by_pid.map(|dir| dir.join(CONTROL)).chain(by_name);
    let mut refused = false;
    for path in candidates {
        match std::fs::metadata(&path) {
            Ok(_) => return Ok(path),
            Err(error) => refused |= error.kind() == std::io::ErrorKind::PermissionDenied,
        }
    }
    let pid = engine.to_str().and_then(|text| text.parse().ok());
    Err(if refused || pid.is_some_and(is_engine_of_another) {
        Error::NotPermitted(engine.to_owned())
    } else {
        Error::NotAnEngine(engine.to_owned())
    })
}

/// Whether a process of another user's is an engine, or the launcher of one.
fn is_engine_of_another(pid: u32) -> bool {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let name = std::fs::read_to_string(process.join("comm")).unwrap_or_default();
    let own = rustix::process::geteuid().as_raw();
    let owner = std::fs::metadata(&process).map(|meta| meta.uid());
    name.starts_with("longshore") && owner.is_ok_and(|uid| uid != own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_private_and_goes_with_its_owner() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().join("longshore");
        let dead = base.join("4194305");
        std::fs::create_dir_all(&dead).unwrap();
        std::fs::set_permissions(&base, std::fs::Permissions::from_mode(0o711)).unwrap();
        let dir = RuntimeDir::create_in(&base).unwrap();
        assert!(!dead.exists());
        // As one of an engine in another namespace, with the same pid.
        let other = RuntimeDir::create_in(&base).unwrap();
        assert!(dir.0.exists() && other.0.exists() && dir.0 != other.0);
        drop(other);
        // Killed, it leaves its directory, and no lock.
        let other = RuntimeDir::create_in(&base).unwrap();
        let left = other.0.clone();
        std::fs::rename(&left, base.join("7")).unwrap();
        drop(other);
        std::fs::create_dir_all(base.join("7")).unwrap();
        drop(RuntimeDir::create_in(&base).unwrap());
        assert!(dir.0.exists() && !base.join("7").exists());
        let mode = std::fs::metadata(&dir.0).unwrap().mode();
        assert_eq!(mode & 0o777, 0o700);
        std::fs::write(dir.control(), "").unwrap();
        assert_eq!(control_socket_of(&dir.0).unwrap(), dir.control());
        assert_eq!(control_socket_of(&dir.engine()).unwrap(), dir.control());
        std::fs::write(dir.engine(), "").unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
        dir.let_programs_in(false).unwrap();
        assert_eq!((mode(&dir.0), mode(&dir.engine())), (0o700, 0o600));
        dir.let_programs_in(true).unwrap();
        assert_eq!(mode(&dir.0), 0o711);
        assert_eq!(mode(&dir.engine()), 0o666);
        assert_eq!(mode(&dir.control()), 0o600);
        let path = dir.0.clone();
        drop(dir);
        assert!(!path.exists());
    }

    #[test]
    fn root_finds_those_of_users_and_not_what_others_put_in_their_place() {
        let top = tempfile::tempdir().unwrap();
        let (runtime, shared) = (top.path().join("user"), top.path().join("tmp"));
        let me = rustix::process::geteuid().as_raw();
        let other = me + 1;
        let make = |path: PathBuf| {
            std::fs::create_dir_all(&path).unwrap();
            path
        };
        let first = make(runtime.join(me.to_string()).join("longshore"));
        let second = make(shared.join(format!("longshore-{me}")));
        make(runtime.join(other.to_string()).join("longshore"));
        make(shared.join(format!("longshore-{other}")));
        make(shared.join("longshore-x"));
        make(runtime.join("7"));
        std::fs::write(shared.join("longshore"), "").unwrap();
        assert_eq!(bases_of_others(&runtime, &shared), [first, second]);
    }

    #[test]
    fn a_directory_that_others_may_write_to_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().join("longshore");
        std::fs::create_dir(&base).unwrap();
        std::fs::set_permissions(&base, std::fs::Permissions::from_mode(0o777)).unwrap();
        let error = RuntimeDir::create_in(&base).unwrap_err();
        assert!(error.to_string().contains("other users"), "{error}");
    }
}
