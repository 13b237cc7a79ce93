//! Processes of this program that its launcher starts beside a program: a private engine, the
//! agent of a link. How they are started, the messages over the socket on their standard
//! input, and their answer.
//!
//! `private`, `link` and `bus` have what each of them does; `run` waits for the answer.

use crate::address::Network;
use crate::errors::{Error, Report, system};
use crate::signals::Signals;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// The most descriptors beside a message, and so the most ports that can be exposed.
pub(crate) const MOST_DESCRIPTORS: usize = 250;
/// The longest message, in bytes.
const LONGEST: usize = 64 * 1024;

/// What came of it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Ready {
        networks: Vec<Network>,
        port: String,
        sandbox_lacks: Option<String>,
    },
    Failed(Report),
}

/// An engine that is ready.
#[derive(Debug)]
pub(crate) struct Started {
    /// The channel to it.
    pub(crate) channel: OwnedFd,
    pub(crate) networks: Vec<Network>,
    pub(crate) port: String,
    /// What the kernel does not have of its sandbox.
    pub(crate) sandbox_lacks: Option<String>,
}

/// What glibc takes settings from.
const TUNABLES: &str = "GLIBC_TUNABLES";
/// glibc registers each thread for restartable sequences (rseq(2)), and then the kernel
/// writes at each switch to the thread where it runs. The engine has none; it is switched to
/// twice in a round trip if it shares a processor with the program and the peer.
const NO_SEQUENCES: &str = "glibc.pthread.rseq=0";

/// The engine's settings of glibc: those that were there, and none of its sequences.
fn tunables(before: Option<OsString>) -> OsString {
    let mut all = before.unwrap_or_default();
    if !all.is_empty() {
        all.push(":");
    }
    all.push(NO_SEQUENCES);
    all
}

/// Starts this program once more, with these arguments and a channel to it on its standard
/// input. In a process group of its own, so that the terminal's signals leave it alone.
/// `signals` are those that the launcher has blocked.
pub(crate) fn start_helper(
    arguments: &[&OsStr],
    signals: &Signals,
) -> Result<(Child, OwnedFd), Error> {
    let fail = |errno: Errno| system("start the engine")(errno);
    let (ours, theirs) = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(fail)?;
    let program = std::env::current_exe().map_err(system("find this program's own file"))?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .process_group(0)
        .env(TUNABLES, tunables(std::env::var_os(TUNABLES)));
    signals.unblock_in(&mut command);
    let child = command.spawn().map_err(system("start the engine"))?;
    Ok((child, ours))
}

/// Takes the engine's answer, which must be there.
pub(crate) fn answer(channel: OwnedFd) -> Result<Started, Error> {
    match receive::<Answer>(&channel) {
        Ok((
            Answer::Ready {
                networks,
                port,
                sandbox_lacks,
            },
            _,
        )) => Ok(Started {
            channel,
            networks,
            port,
            sandbox_lacks,
        }),
        Ok((Answer::Failed(report), _)) => Err(Error::Reported(report)),
        Err(_) => Err(Error::EngineDied(String::new())),
    }
}

/// Sends a message, with descriptors beside it.
pub(crate) fn send_message<T: Serialize>(
    channel: &OwnedFd,
    message: &T,
    fds: &[BorrowedFd<'_>],
) -> std::io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(fds));
    }
    let parts = [IoSlice::new(&bytes)];
    rustix::io::retry_on_intr(|| sendmsg(channel, &parts, &mut control, SendFlags::NOSIGNAL))?;
    Ok(())
}

/// Receives a message, and descriptors.
pub(crate) fn receive<T: for<'a> Deserialize<'a>>(
    channel: &OwnedFd,
) -> std::io::Result<(T, Vec<OwnedFd>)> {
    let mut bytes = vec![0; LONGEST];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = rustix::io::retry_on_intr(|| {
        let mut parts = [IoSliceMut::new(&mut bytes)];
        recvmsg(channel, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    Ok((serde_json::from_slice(&bytes[..got.bytes])?, fds))
}

/// Takes what the standard input is, and leaves nothing there.
pub(crate) fn take_stdin() -> Result<OwnedFd, Error> {
    let stdin = std::io::stdin();
    let taken = rustix::io::fcntl_dupfd_cloexec(&stdin, 3).map_err(system("take the order"))?;
    let null = std::fs::File::open("/dev/null").map_err(system("open /dev/null"))?;
    rustix::stdio::dup2_stdin(&null).map_err(system("close the standard input"))?;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_glibc_that_were_there_stay() {
        assert_eq!(tunables(None), NO_SEQUENCES);
        let before = OsString::from("glibc.malloc.check=1");
        let all = "glibc.malloc.check=1:glibc.pthread.rseq=0";
        assert_eq!(tunables(Some(before)), all);
    }
}
