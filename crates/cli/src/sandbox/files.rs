//! Files that a shared engine still needs when it has given up opening files: those of a
//! reload.
//!
//! A file that is replaced (as editors and package managers do) is another one to Landlock,
//! and /etc has others beside it that are nobody's business. So a process is forked before
//! anything is given up, which does nothing but open these files when it is asked, and hands
//! the descriptors over. It cannot be asked for any other file, and ends with its engine.

use super::landlock::Paths;
use super::seccomp::Filter;
use super::{SandboxError, capabilities, landlock, trap};
use crate::awake;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv, recvmsg, send, sendmsg,
    socketpair,
};
use rustix::thread::CapabilitySet;
use std::fs::File;
use std::io::{IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Where users have their names and numbers.
const USERS: &str = "/etc/passwd";

/// A file that may be wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Wanted {
    Config = b'c',
    Users = b'u',
    Latency = b'l',
}

impl Wanted {
    const ALL: [Self; 3] = [Self::Config, Self::Users, Self::Latency];

    fn open(self, config: &Path) -> std::io::Result<File> {
        match self {
            Self::Config => File::open(config),
            Self::Users => File::open(USERS),
            Self::Latency => awake::open(),
        }
    }
}

/// How the engine's process gets at these files.
#[derive(Debug)]
pub(crate) struct Files {
    config: PathBuf,
    /// The process that opens them, if this one does not itself.
    opener: Option<OwnedFd>,
}

impl Files {
    /// They are opened here.
    pub(crate) fn direct(config: &Path) -> Self {
        Self {
            config: config.to_owned(),
            opener: None,
        }
    }

    /// They are opened by a process that is started for that. To be called while this one has
    /// one thread and nothing that a child should not have, and with those signals blocked
    /// that are meant for the engine alone.
    pub(crate) fn by_another(config: &Path) -> Result<Self, SandboxError> {
        let (ours, theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(SandboxError::Files)?;
        // SAFETY: this process has one thread, so its child's memory is whole and no lock is
        // held there.
        match unsafe { libc::fork() } {
            0 => {
                drop(ours);
                let code = i32::from(serve(&theirs, config).is_err());
                // SAFETY: it ends the process without running what the parent is to run.
                unsafe { libc::_exit(code) }
            }
            1.. => Ok(Self {
                config: config.to_owned(),
                opener: Some(ours),
            }),
            _ => {
                let error = std::io::Error::last_os_error();
                let errno = Errno::from_io_error(&error).unwrap_or(Errno::AGAIN);
                Err(SandboxError::Files(errno))
            }
        }
    }

    /// Where the configuration is.
    pub(crate) fn path(&self) -> &Path {
        &self.config
    }

    /// The configuration's text.
    pub(crate) fn config(&self) -> std::io::Result<String> {
        self.text(Wanted::Config)
    }

    /// The text of /etc/passwd.
    pub(crate) fn users(&self) -> std::io::Result<String> {
        self.text(Wanted::Users)
    }

    /// What keeps processors awake while it is open.
    pub(crate) fn latency(&self) -> std::io::Result<File> {
        self.open(Wanted::Latency)
    }

    fn text(&self, wanted: Wanted) -> std::io::Result<String> {
        let mut text = String::new();
        self.open(wanted)?.read_to_string(&mut text)?;
        Ok(text)
    }

    fn open(&self, wanted: Wanted) -> std::io::Result<File> {
        let Some(opener) = &self.opener else {
            return wanted.open(&self.config);
        };
        let gone = || std::io::Error::other("the process that opens files for the engine is gone");
        send(opener, &[wanted as u8], SendFlags::NOSIGNAL).map_err(|_| gone())?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut errno = [0; 4];
        let got = rustix::io::retry_on_intr(|| {
            let mut parts = [IoSliceMut::new(&mut errno)];
            recvmsg(opener, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)
        })?;
        if got.bytes != errno.len() {
            return Err(gone());
        }
        let file = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        });
        match file {
            Some(fd) => Ok(File::from(fd)),
            None => Err(std::io::Error::from_raw_os_error(i32::from_ne_bytes(errno))),
        }
    }
}

/// The other process: opens what is asked for until nobody asks any more.
fn serve(socket: &OwnedFd, config: &Path) -> Result<(), Errno> {
    let _ = rustix::thread::set_name(c"longshore-files");
    // Should the engine be killed, this ends as well.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let null = std::fs::File::open("/dev/null").map_err(|_| Errno::NODEV)?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    confine().map_err(|_| Errno::PERM)?;
    let mut question = [0; 1];
    loop {
        let (_, len) =
            rustix::io::retry_on_intr(|| recv(socket, &mut question, RecvFlags::empty()))?;
        let wanted = Wanted::ALL.iter().find(|w| **w as u8 == question[0]);
        let (1, Some(wanted)) = (len, wanted) else {
            return Ok(());
        };
        answer(socket, wanted.open(config))?;
    }
}

/// It reads what the engine's user may read, as the engine did before it was confined.
fn confine() -> Result<(), SandboxError> {
    let set = rustix::thread::set_no_new_privs(true);
    set.map_err(SandboxError::NewPrivileges)?;
    let mut paths = Paths::default();
    paths.read("/");
    paths.write(awake::DEVICE);
    // Where the kernel has neither, it does the same, and the engine says so.
    let _ = landlock::restrict(&paths);
    let kept = CapabilitySet::DAC_READ_SEARCH;
    capabilities::keep(kept).map_err(SandboxError::Capabilities)?;
    trap::set_handler().map_err(SandboxError::Handler)?;
    let _ = Filter::of_opener().apply_to_all_threads();
    Ok(())
}

fn answer(socket: &OwnedFd, file: std::io::Result<File>) -> Result<(), Errno> {
    let errno = match &file {
        Ok(_) => 0,
        Err(error) => error.raw_os_error().unwrap_or(libc::EIO),
    };
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fd = file.as_ref().ok().map(|file| [file.as_fd()]);
    if let Some(fd) = &fd {
        control.push(SendAncillaryMessage::ScmRights(fd));
    }
    let errno = errno.to_ne_bytes();
    let parts = [IoSlice::new(&errno)];
    rustix::io::retry_on_intr(|| sendmsg(socket, &parts, &mut control, SendFlags::NOSIGNAL))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_process_opens_what_is_there_when_it_is_asked() {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("engine.toml");
        let all = [Files::direct(&config), Files::by_another(&config).unwrap()];
        for files in &all {
            let _ = std::fs::remove_file(&config);
            let missing = files.config().unwrap_err();
            assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
            std::fs::write(&config, "one").unwrap();
            assert_eq!(files.config().unwrap(), "one");
            // As editors do.
            std::fs::write(dir.path().join("new"), "two").unwrap();
            std::fs::rename(dir.path().join("new"), &config).unwrap();
            assert_eq!(files.config().unwrap(), "two");
            assert!(files.users().unwrap().contains("root:"));
        }
    }
}
