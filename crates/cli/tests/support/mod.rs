//! What the tests of the program share: the program itself, and an engine that
//! does nothing but open sessions.

#![allow(dead_code, reason = "no test uses all of it")]

use longshore_hostif::attach::{Message, Refusal, Token, receive, send};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with,
};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

/// The token that the engine gives out.
pub(crate) const TOKEN: Token = Token([0xab; 16]);

/// An engine of which only the socket where launchers attach is real.
pub(crate) struct AttachServer {
    /// Where it listens.
    pub(crate) path: PathBuf,
    /// Says so each time that a launcher's connection is closed.
    pub(crate) closed: Receiver<()>,
    _dir: tempfile::TempDir,
}

impl AttachServer {
    /// Opens that socket; `refusal` is what launchers are told, if not yes.
    pub(crate) fn open(refusal: Option<Refusal>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("engine");
        let kind = SocketType::SEQPACKET;
        let listener = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
        bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        listen(&listener, 16).unwrap();
        let (tell, closed) = channel();
        thread::spawn(move || {
            while let Ok(launcher) = accept_with(&listener, SocketFlags::CLOEXEC) {
                serve(&launcher, refusal);
                if tell.send(()).is_err() {
                    return;
                }
            }
        });
        AttachServer {
            path,
            closed,
            _dir: dir,
        }
    }
}

fn serve(client: &OwnedFd, refusal: Option<Refusal>) {
    while let Ok((message, _)) = receive(client.as_fd()) {
        assert!(matches!(message, Message::NewSession(_)));
        let answer = refusal.map_or(Message::Session(TOKEN), Message::Refused);
        send(client.as_fd(), &answer, &[]).unwrap();
    }
}

/// A library that can be preloaded and changes nothing: one that every program
/// has anyway.
pub(crate) fn harmless_library() -> PathBuf {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let path = maps.lines().find_map(|line| {
        let path = line.split_whitespace().nth(5)?;
        path.contains("/libc.so").then(|| PathBuf::from(path))
    });
    path.expect("the tests are linked with libc")
}

/// The program, ready for arguments.
pub(crate) fn longshore() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longshore"));
    command
        .env("LONGSHORE_PRELOAD", harmless_library())
        .env_remove("LD_PRELOAD");
    longshore_testbed::with_default_signals(&mut command);
    command
}

/// `longshore run --engine PATH -- ...`.
pub(crate) fn run_on(engine: &Path, program: &[&str]) -> Command {
    let mut command = longshore();
    command
        .args(["run", "--engine"])
        .arg(engine)
        .arg("--")
        .args(program);
    command
}
