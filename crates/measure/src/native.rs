//! Bulk with the native calls, in the streams' own memory: a program written for
//! Longshore, beside the one that [`crate::programs`] has for any stack.
//!
//! They join the session of the `longshore run` that starts them, and need the
//! POSIX shim out of the way (`env -u LD_PRELOAD`).

use longshore_hostif::attach::{ENGINE_VARIABLE, SESSION_VARIABLE};
use longshore_sockets::{Hooks, Host, Listener, Stream};
use std::io;
use std::net::SocketAddr;
use std::path::Path;

/// What one reservation asks for.
const PIECE: usize = 256 * 1024;

fn join() -> io::Result<&'static Host> {
    let variable =
        |name| std::env::var(name).map_err(|_| io::Error::other(format!("{name} is not set")));
    let token = variable(SESSION_VARIABLE)?
        .parse()
        .map_err(io::Error::other)?;
    Host::join(
        Path::new(&variable(ENGINE_VARIABLE)?),
        token,
        Hooks::default(),
    )
    .map_err(io::Error::other)
}

fn listen(at: &str) -> io::Result<Listener> {
    let at: SocketAddr = at.parse().map_err(io::Error::other)?;
    Listener::bind(join()?, at, 16).map_err(io::Error::other)
}

/// Makes bytes in the send stream without end, for whoever connects to `at`.
pub(crate) fn source(at: &str) -> io::Result<()> {
    let listener = listen(at)?;
    loop {
        let (stream, _) = listener.accept().map_err(io::Error::other)?;
        while let Ok(mut room) = stream.reserve(PIECE) {
            let length = room.len();
            for piece in room.pieces(0, length) {
                piece.map_err(io::Error::other)?.fill(b's');
            }
            if room.commit(length, false).is_err() {
                break;
            }
        }
    }
}

/// Takes all that comes from whoever connects to `at` where it lies, and says
/// how much it was.
pub(crate) fn sink(at: &str) -> io::Result<()> {
    let listener = listen(at)?;
    loop {
        let (stream, _) = listener.accept().map_err(io::Error::other)?;
        let mut bytes = 0_u64;
        while let Ok(come) = stream.peek() {
            let length = come.len();
            if length == 0 || come.consume(length).is_err() {
                break;
            }
            bytes += length as u64;
        }
        // A peer that only looked whether we are here does not wait for this.
        let _ = stream.write_all(&bytes.to_be_bytes());
    }
}

/// Takes what a [`source`] at `from` makes, where it lies, as much with each call as there is; says
/// how much.
pub(crate) fn taker(from: &str) -> io::Result<impl FnMut() -> io::Result<usize>> {
    let from: SocketAddr = from.parse().map_err(io::Error::other)?;
    let stream = Stream::connect(join()?, from).map_err(io::Error::other)?;
    Ok(move || {
        let come = stream.peek().map_err(io::Error::other)?;
        let length = come.len();
        come.consume(length).map_err(io::Error::other)?;
        Ok(length)
    })
}
