//! What an engine gives up once it has opened what needs privileges: capabilities, files,
//! system calls.
//!
//! Used by `engine_cmd` and `private`, in two steps. [`Sandbox::enter`] is called when the
//! port and the sockets are open and before any thread is started, since capabilities and
//! Landlock hold for a thread and those that it starts; [`Sandbox::close`] when all is ready
//! to be served, with a filter of system calls for all threads at once. What the kernel does
//! not have is left out, and [`Sandbox::words`] says so. Each file has one measure;
//! `files` has the process that opens what a sandboxed engine still needs at a reload.

mod calls;
mod capabilities;
mod files;
mod landlock;
mod seccomp;
mod trap;

pub(crate) use files::Files;

use landlock::Paths;
use rustix::io::Errno;
use rustix::thread::CapabilitySet;
use seccomp::Filter;
use std::path::PathBuf;

/// Why an engine cannot be confined, although the kernel could.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SandboxError {
    #[error("cannot give capabilities up: {0}")]
    Capabilities(Errno),
    #[error("cannot give up that programs may raise privileges: {0}")]
    NewPrivileges(Errno),
    #[error("cannot start the process that opens files for the engine: {0}")]
    Files(Errno),
    #[error("cannot set a handler for forbidden system calls: {0}")]
    Handler(Errno),
}

/// What an engine needs when it runs.
#[derive(Debug, Default)]
pub(crate) struct Needs {
    /// Its own directory, with all in it, and the one that this is in: it removes them when
    /// it ends. None if somebody else does.
    pub(crate) own: Option<PathBuf>,
    /// Directories in which it removes its sockets when it ends.
    pub(crate) sockets_in: Vec<PathBuf>,
    /// Ports to which it connects by the kernel, for `--expose`.
    pub(crate) relays_to: Vec<u16>,
    /// It serves several users.
    pub(crate) shared: bool,
}

impl Needs {
    /// What a shared engine keeps of its capabilities. CAP_SYS_RESOURCE: without it the
    /// descriptors that are under way in messages to programs are counted against a limit
    /// that all processes of the engine's user share (RLIMIT_NOFILE, unix(7)), and a program
    /// that takes none of its answers could keep all others from joining.
    fn capabilities(&self) -> CapabilitySet {
        if self.shared {
            CapabilitySet::SYS_RESOURCE
        } else {
            CapabilitySet::empty()
        }
    }

    fn paths(&self) -> Paths {
        let mut paths = Paths::default();
        // Users and capabilities of programs, the host's settings; what the allocator asks.
        paths.read("/proc");
        paths.read("/sys/devices/system/cpu");
        for dir in &self.sockets_in {
            paths.remove_files(dir);
        }
        if let Some(own) = &self.own {
            paths.empty(own);
            if let Some(parent) = own.parent() {
                paths.remove_directories(parent);
            }
        }
        paths.connect_to(&self.relays_to);
        paths
    }
}

/// What keeps the engine from doing more than it needs.
#[derive(Debug)]
pub(crate) struct Sandbox {
    /// Measures that hold.
    holds: Vec<String>,
    /// Those that do not, and why.
    lacks: Vec<String>,
    /// What is still to be done, if anything.
    filter: Option<Filter>,
}

impl Sandbox {
    /// The engine is not confined, as somebody wanted.
    pub(crate) fn off() -> Self {
        Self {
            holds: Vec::new(),
            lacks: Vec::new(),
            filter: None,
        }
    }

    /// Gives up what this thread, and all that it starts from now on, do not need.
    pub(crate) fn enter(needs: &Needs) -> Result<Self, SandboxError> {
        let mut sandbox = Self::off();
        let set = rustix::thread::set_no_new_privs(true);
        set.map_err(SandboxError::NewPrivileges)?;
        sandbox.holds.push("no new privileges".to_owned());
        match landlock::restrict(&needs.paths()) {
            Ok(abi) => sandbox.holds.push(format!("Landlock ABI {abi}")),
            Err(why) => sandbox.lacks.push(format!("Landlock ({why})")),
        }
        let kept = capabilities::keep(needs.capabilities()).map_err(SandboxError::Capabilities)?;
        let kept = match capabilities::names(kept) {
            none if none.is_empty() => "no capabilities".to_owned(),
            some => format!("no capabilities but {some}"),
        };
        sandbox.holds.insert(0, kept);
        sandbox.filter = Some(Filter::of_engine(!needs.relays_to.is_empty()));
        Ok(sandbox)
    }

    /// Forbids all threads the system calls that a running engine does not make. Files,
    /// sockets and threads that are still needed are there.
    pub(crate) fn close(&mut self) -> Result<(), SandboxError> {
        let Some(filter) = self.filter.take() else {
            return Ok(());
        };
        trap::set_handler().map_err(SandboxError::Handler)?;
        match filter.apply_to_all_threads() {
            Ok(()) => self.holds.push("seccomp".to_owned()),
            Err(why) => self.lacks.push(format!("seccomp ({why})")),
        }
        Ok(())
    }

    /// What there is, for the log and for `longshore stat`.
    pub(crate) fn words(&self) -> String {
        if self.holds.is_empty() {
            return "off".to_owned();
        }
        let holds = self.holds.join(", ");
        match self.lacks() {
            None => holds,
            Some(lacks) => format!("{holds}; not here: {lacks}"),
        }
    }

    /// What the kernel does not have of it.
    pub(crate) fn lacks(&self) -> Option<String> {
        (!self.lacks.is_empty()).then(|| self.lacks.join(", "))
    }
}

#[cfg(test)]
mod tests;
