//! Where the other end of a link is, and the key that both ends have.
//!
//! Owns [`Place`], as `--engine` and `--link` name it, and connects to it or listens there.

use longshore_ring::VsockAddress;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
    socket_with, sockopt,
};
use std::fmt;
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;
/// How long to wait for the other end's kernel.
const CONNECT_FOR: Duration = Duration::from_secs(10);
/// How long the other end's kernel may be silent before the link counts as broken: probes
/// after so many seconds, and so far apart, of which so many find no answer.
const SILENT_S: u64 = 5;
const PROBES: u32 = 3;
/// Links that wait to be taken.
const LISTEN_BACKLOG: i32 = 16;
/// How long what was sent may remain without acknowledgment, milliseconds.
const UNACKNOWLEDGED_MS: u32 = 20_000;

/// Where an end of a link listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// At a host, by name or address, and a port.
    Tcp(String),
    /// At a socket of this machine.
    Unix(PathBuf),
    /// Between a virtual machine and its host.
    Vsock(VsockAddress),
}

/// Not a place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} names no end of a link: write tcp:HOST:PORT, unix:PATH or vsock:CID:PORT")]
pub struct BadPlace(String);

impl FromStr for Place {
    type Err = BadPlace;

    fn from_str(text: &str) -> Result<Self, BadPlace> {
        let bad = || BadPlace(text.to_owned());
        if let Some(path) = text.strip_prefix("unix:") {
            return (!path.is_empty())
                .then(|| Self::Unix(path.into()))
                .ok_or_else(bad);
        }
        if let Some(address) = text.strip_prefix("vsock:") {
            return vsock_address(address).map(Self::Vsock).ok_or_else(bad);
        }
        let host = text.strip_prefix("tcp:").unwrap_or(text);
        let (name, port) = host.rsplit_once(':').ok_or_else(bad)?;
        let is_bare_ipv6 = name.contains(':') && !name.starts_with('[');
        if name.is_empty() || is_bare_ipv6 || port.parse::<u16>().is_err() {
            return Err(bad());
        }
        Ok(Self::Tcp(host.to_owned()))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host) => write!(f, "tcp:{host}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Vsock(VsockAddress { cid, port }) => match *cid {
                VsockAddress::ANY => write!(f, "vsock:any:{port}"),
                VsockAddress::HOST => write!(f, "vsock:host:{port}"),
                cid => write!(f, "vsock:{cid}:{port}"),
            },
        }
    }
}

/// `CID:PORT`, where the first may be `host` or `any`.
fn vsock_address(text: &str) -> Option<VsockAddress> {
    let (cid, port) = text.split_once(':')?;
    let cid = match cid {
        "any" => VsockAddress::ANY,
        "host" => VsockAddress::HOST,
        number => number.parse().ok()?,
    };
    Some(VsockAddress {
        cid,
        port: port.parse().ok()?,
    })
}

/// Why an end of a link could not be had.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what} {place}: {source}")]
pub struct PlaceError {
    what: &'static str,
    place: String,
    source: std::io::Error,
}

impl Place {
    fn fail(&self, what: &'static str) -> impl Fn(std::io::Error) -> PlaceError + '_ {
        move |source| PlaceError {
            what,
            place: self.to_string(),
            source,
        }
    }

    /// Connects to whoever listens there.
    ///
    /// # Errors
    /// [`PlaceError`].
    pub fn connect(&self) -> Result<OwnedFd, PlaceError> {
        let fail = self.fail("connect the link to");
        match self {
            Self::Tcp(host) => {
                let mut last = std::io::Error::from(std::io::ErrorKind::NotFound);
                for address in host.to_socket_addrs().map_err(&fail)? {
                    match TcpStream::connect_timeout(&address, CONNECT_FOR) {
                        Ok(stream) => {
                            let fd = OwnedFd::from(stream);
                            prepare(fd.as_fd()).map_err(&fail)?;
                            return Ok(fd);
                        }
                        Err(error) => last = error,
                    }
                }
                Err(fail(last))
            }
            Self::Unix(path) => {
                let connected = || {
                    let fd = unix_socket()?;
                    connect(&fd, &SocketAddrUnix::new(path)?)?;
                    Ok(fd)
                };
                connected().map_err(&fail)
            }
            // The kernel waits for an answer for two seconds.
            Self::Vsock(address) => {
                let connected = || {
                    let fd = stream_socket(AddressFamily::VSOCK)?;
                    connect(&fd, address)?;
                    Ok(fd)
                };
                connected().map_err(&fail)
            }
        }
    }

    /// Listens there. A socket of this machine that nobody answers at is replaced.
    ///
    /// # Errors
    /// [`PlaceError`].
    pub fn listen(&self) -> Result<Listening, PlaceError> {
        let fail = self.fail("listen for links at");
        let fd = match self {
            Self::Tcp(host) => OwnedFd::from(TcpListener::bind(host).map_err(&fail)?),
            Self::Unix(path) => listen_at(path).map_err(&fail)?,
            Self::Vsock(address) => listen_at_vsock(address).map_err(&fail)?,
        };
        Ok(Listening::from(fd))
    }
}

fn stream_socket(family: AddressFamily) -> std::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    Ok(socket_with(family, SocketType::STREAM, flags, None)?)
}

fn unix_socket() -> std::io::Result<OwnedFd> {
    stream_socket(AddressFamily::UNIX)
}

fn listen_at_vsock(address: &VsockAddress) -> std::io::Result<OwnedFd> {
    let fd = stream_socket(AddressFamily::VSOCK)?;
    bind(&fd, address)?;
    listen(&fd, LISTEN_BACKLOG)?;
    Ok(fd)
}

fn listen_at(path: &Path) -> std::io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    let fd = unix_socket()?;
    if let Err(error) = bind(&fd, &address) {
        let is_left = error == rustix::io::Errno::ADDRINUSE
            && connect(unix_socket()?, &address) == Err(rustix::io::Errno::CONNREFUSED);
        if !is_left {
            return Err(error.into());
        }
        std::fs::remove_file(path)?;
        bind(&fd, &address)?;
    }
    listen(&fd, LISTEN_BACKLOG)?;
    Ok(fd)
}

/// What is sent goes at once, and a peer that has vanished is noticed.
fn prepare(fd: BorrowedFd<'_>) -> std::io::Result<()> {
    sockopt::set_tcp_nodelay(fd, true)?;
    sockopt::set_socket_keepalive(fd, true)?;
    sockopt::set_tcp_keepidle(fd, Duration::from_secs(SILENT_S))?;
    sockopt::set_tcp_keepintvl(fd, Duration::from_secs(SILENT_S))?;
    sockopt::set_tcp_keepcnt(fd, PROBES)?;
    sockopt::set_tcp_user_timeout(fd, UNACKNOWLEDGED_MS)?;
    Ok(())
}

/// Where links come in.
#[derive(Debug)]
pub struct Listening {
    fd: OwnedFd,
    is_tcp: bool,
}

impl From<OwnedFd> for Listening {
    fn from(fd: OwnedFd) -> Self {
        let domain = sockopt::socket_domain(&fd);
        let is_tcp = matches!(domain, Ok(AddressFamily::INET | AddressFamily::INET6));
        Self { fd, is_tcp }
    }
}

impl From<Listening> for OwnedFd {
    fn from(listening: Listening) -> Self {
        listening.fd
    }
}

impl AsFd for Listening {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Listening {
    /// Waits for the next link.
    ///
    /// # Errors
    /// The kernel's.
    pub fn accept(&self) -> std::io::Result<OwnedFd> {
        let accept = || accept_with(&self.fd, SocketFlags::CLOEXEC);
        let fd = rustix::io::retry_on_intr(accept)?;
        if self.is_tcp {
            prepare(fd.as_fd())?;
        }
        Ok(fd)
    }
}

/// A key that both ends of a link have.
#[derive(Clone)]
pub struct Key([u8; KEY_BYTES]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

/// Not a file with a key.
#[derive(Debug, thiserror::Error)]
pub enum BadKey {
    /// It cannot be read.
    #[error("cannot read the key of the link in {path}: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The kernel's reason.
        source: std::io::Error,
    },
    /// Others can read it.
    #[error("the key of the link in {0} can be read by others; make it your own: chmod 600")]
    NotSecret(PathBuf),
    /// It is something else.
    #[error(
        "{0} has no key of a link, which is 64 hexadecimal digits: openssl rand -hex 32 makes one"
    )]
    NoKey(PathBuf),
}

impl Key {
    /// Reads the key in a file: 64 hexadecimal digits, which nobody but its owner and root may
    /// read.
    ///
    /// # Errors
    /// [`BadKey`].
    pub fn read(path: &Path) -> Result<Self, BadKey> {
        let unreadable = |source| BadKey::Unreadable {
            path: path.to_owned(),
            source,
        };
        let file = std::fs::File::open(path).map_err(unreadable)?;
        if file.metadata().map_err(unreadable)?.mode() & 0o077 != 0 {
            return Err(BadKey::NotSecret(path.to_owned()));
        }
        // No more than a key has, whatever the file is.
        let mut text = String::new();
        let mut start = std::io::Read::take(file, 2 * KEY_BYTES as u64 + 16);
        std::io::Read::read_to_string(&mut start, &mut text).map_err(unreadable)?;
        Self::from_hex(text.trim()).ok_or_else(|| BadKey::NoKey(path.to_owned()))
    }

    fn from_hex(text: &str) -> Option<Self> {
        if text.len() != 2 * KEY_BYTES || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        let mut key = [0; KEY_BYTES];
        for (i, byte) in key.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * i..2 * i + 2)?, 16).ok()?;
        }
        Some(Self(key))
    }

    pub(crate) fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn places_are_named() {
        let tcp = |text: &str| Ok(Place::Tcp(text.to_owned()));
        assert_eq!("tcp:10.0.0.1:4000".parse(), tcp("10.0.0.1:4000"));
        assert_eq!("[fd00::1]:4000".parse(), tcp("[fd00::1]:4000"));
        assert_eq!("nic.example:4000".parse(), tcp("nic.example:4000"));
        assert_eq!("unix:/run/x".parse(), Ok(Place::Unix("/run/x".into())));
        for bad in [
            "",
            "tcp:",
            "10.0.0.1",
            "fd00::1:4000",
            ":80",
            "unix:",
            "x:70000",
            "vsock:",
            "vsock:2",
            "vsock:x:4077",
            "vsock:2:-1",
            "vsock:2:4077:1",
        ] {
            assert!(bad.parse::<Place>().is_err(), "{bad}");
        }
        for (text, cid) in [("any", VsockAddress::ANY), ("host", 2), ("52", 52)] {
            let text = format!("vsock:{text}:4077");
            let place: Place = text.parse().unwrap();
            assert_eq!(place, Place::Vsock(VsockAddress { cid, port: 4077 }));
            assert_eq!(place.to_string(), text);
        }
        let place: Place = "nic.example:4000".parse().unwrap();
        assert_eq!(place.to_string(), "tcp:nic.example:4000");
    }

    #[test]
    fn a_key_is_its_owners_and_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let write = |text: &str, mode| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            Key::read(&path)
        };
        let digits = "0f".repeat(KEY_BYTES);
        let key = write(&format!("{digits}\n"), 0o600).unwrap();
        assert_eq!(key.bytes(), &[0x0f; KEY_BYTES]);
        assert!(matches!(write(&digits, 0o640), Err(BadKey::NotSecret(_))));
        assert!(matches!(write(&digits, 0o604), Err(BadKey::NotSecret(_))));
        let long = format!("{digits}0f");
        let other = digits.replace('f', "g");
        for text in ["", &digits[1..], &long, &other] {
            assert!(
                matches!(write(text, 0o600), Err(BadKey::NoKey(_))),
                "{text}"
            );
        }
        let none = Key::read(&dir.path().join("none"));
        assert!(matches!(none, Err(BadKey::Unreadable { .. })));
        assert_eq!(format!("{key:?}"), "Key");
    }

    #[test]
    fn a_port_between_machines_has_one_listener_and_answers_as_others_do() {
        let place: Place = format!("vsock:any:{}", 0x4c53_0000 + std::process::id())
            .parse()
            .unwrap();
        // Nobody is at `any` to connect to, whether the kernel has such sockets or not.
        let error = place.connect().unwrap_err().to_string();
        let named = format!("cannot connect the link to {place}: ");
        assert!(error.starts_with(&named), "{error}");
        match place.listen() {
            Ok(_first) => {
                let error = place.listen().unwrap_err().to_string();
                assert!(error.contains("in use"), "{error}");
            }
            Err(error) => assert!(
                error.to_string().contains("not supported"),
                "a kernel without vsock: {error}"
            ),
        }
    }

    #[test]
    fn a_socket_that_nobody_answers_at_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::Unix(dir.path().join("link"));
        let first = place.listen().unwrap();
        let error = place.listen().unwrap_err();
        assert!(error.to_string().contains("in use"), "{error}");
        drop(first);
        let second = place.listen().unwrap();
        let _ours = place.connect().unwrap();
        second.accept().unwrap();
    }
}
