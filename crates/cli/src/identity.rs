//! What an engine is called by DHCP servers and on a link whose routers give it addresses: the
//! same each time it is started there, and another than the kernel and every other
//! engine.
//!
//! `network` asks when it opens a port. What all is made of is the machine's number
//! (machine-id(5)), which is not shown to anybody, the interface's name, and a number for
//! each of the engines that are on the interface at the same time.

use crate::address::Automatic;
use crate::errors::{Error, system};
use longshore_net::stable::Identifiers;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};
use sha2::{Digest, Sha256};
use std::os::fd::OwnedFd;

/// Engines on one interface that can be told apart.
const MOST: u32 = 256;
/// A client identifier of RFC 4361, and in it a DUID that is a UUID (RFC 6355).
const NODE_SPECIFIC: u8 = 255;
const DUID_UUID: u16 = 4;

impl Automatic {
    /// What the engine needs to find out addresses on an interface.
    pub(crate) fn identified(self, interface: &str) -> Result<longshore_engine::Automatic, Error> {
        let number = claim_number(interface)?;
        let machine = machine();
        let name = format!("{interface} {number}");
        Ok(longshore_engine::Automatic {
            dhcp: self.dhcp.then(|| client_id(&machine, &name)),
            routers: self.slaac.then(|| {
                let secret = derived(&machine, "longshore addresses");
                Identifiers::new(secret, name.as_bytes())
            }),
        })
    }
}

/// The first number on the interface that no other engine has, held until this process
/// ends: names of abstract sockets belong to the network namespace, as interfaces do.
fn claim_number(interface: &str) -> Result<u32, Error> {
    let what = "take a number among the engines of the interface";
    for number in 0..MOST {
        let name = format!("longshore {interface} engine {number}");
        let at = SocketAddrUnix::new_abstract_name(name.as_bytes()).map_err(system(what))?;
        let kind = SocketType::DGRAM;
        let fd: OwnedFd = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)
            .map_err(system(what))?;
        match bind(&fd, &at) {
            Ok(()) => {
                // It goes with the process.
                std::mem::forget(fd);
                return Ok(number);
            }
            Err(Errno::ADDRINUSE) => {}
            Err(errno) => return Err(system(what)(errno)),
        }
    }
    Err(system(what)(Errno::ADDRINUSE))
}

/// What this machine has for itself; where it has no number, what lasts until it is
/// started again.
fn machine() -> Vec<u8> {
    let files = ["/etc/machine-id", "/proc/sys/kernel/random/boot_id"];
    let read = files.iter().filter_map(|path| std::fs::read(path).ok());
    read.map(|text| text.trim_ascii().to_vec())
        .find(|text| !text.is_empty())
        .unwrap_or_default()
}

/// A number for one purpose, from which the machine's cannot be found.
fn derived(machine: &[u8], purpose: &str) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(purpose.as_bytes());
    hash.update([0]);
    hash.update(machine);
    hash.finalize().into()
}

/// A client identifier: type, the interface's number (IAID), a DUID.
fn client_id(machine: &[u8], interface: &str) -> Vec<u8> {
    let iaid = derived(machine, interface);
    let uuid = derived(machine, "longshore dhcp");
    let mut id = vec![NODE_SPECIFIC];
    id.extend(iaid.iter().take(4));
    id.extend(DUID_UUID.to_be_bytes());
    id.extend(uuid.iter().take(16));
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_is_the_same_each_time_and_no_other() {
        let id = client_id(b"m", "eth0 0");
        assert_eq!(id, client_id(b"m", "eth0 0"));
        assert_eq!((id.len(), id[0], &id[5..7]), (23, 255, &[0, 4][..]));
        let other = client_id(b"m", "eth0 1");
        assert!(id[..5] != other[..5] && id[5..] == other[5..]);
        assert!(client_id(b"n", "eth0 0")[5..] != id[5..]);
    }

    #[test]
    fn engines_on_one_interface_have_numbers_of_their_own() {
        let name = format!("test{}", std::process::id());
        assert_eq!(claim_number(&name).unwrap(), 0);
        assert_eq!(claim_number(&name).unwrap(), 1);
        assert_eq!(claim_number(&format!("{name}x")).unwrap(), 0);
    }
}
