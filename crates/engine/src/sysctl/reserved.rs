//! The ports that the host reserves (net.ipv4.ip_local_reserved_ports).
//!
//! Owned by [`HostSettings`](super::HostSettings), which reads it with all else. Unlike the other
//! files this one may be long, and is the same nearly always: it is parsed when it has changed.

use longshore_stack::ReservedPorts;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// The file's name.
pub(super) const FILE: &str = "ip_local_reserved_ports";

/// Bytes that are read at first: the ports of some dozen services.
const USUAL: usize = 256;
/// Bytes that the text has at most; with every second port it has some 200,000.
const MOST: usize = 256 << 10;

/// The file, and what it said.
#[derive(Debug)]
pub(super) struct Reserved {
    file: File,
    text: Vec<u8>,
    /// For the next text; as long as the texts have been, at least.
    next: Vec<u8>,
    /// `None` if none is reserved.
    ports: Option<Arc<ReservedPorts>>,
}

impl Reserved {
    pub(super) fn new(file: File) -> Self {
        Self {
            file,
            text: Vec::new(),
            next: vec![0; USUAL],
            ports: None,
        }
    }

    /// The ports that were reserved when the file was read; the same as before if it has not
    /// changed.
    pub(super) fn ports(&self) -> Option<&Arc<ReservedPorts>> {
        self.ports.as_ref()
    }

    /// Reads the file. What cannot be read, or is no list of ports, leaves all as it was.
    pub(super) fn read(&mut self) {
        // The kernel writes such a file from its beginning only, as much as there is room for.
        let len = loop {
            match self.file.read_at(&mut self.next, 0) {
                Ok(len) if len == self.next.len() && len < MOST => self.next.resize(2 * len, 0),
                Ok(len) => break len,
                Err(_) => return,
            }
        };
        let next = self.next.get(..len).unwrap_or_default();
        if next == self.text {
            return;
        }
        let Some(ports) = str::from_utf8(next).ok().and_then(ReservedPorts::parse) else {
            return;
        };
        self.ports = (!ports.is_empty()).then(|| Arc::new(ports));
        self.text.clear();
        self.text.extend_from_slice(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with this text, and what is read of it.
    fn reserved(text: &str) -> (tempfile::NamedTempFile, Reserved) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let mut reserved = Reserved::new(file.reopen().unwrap());
        reserved.read();
        (file, reserved)
    }

    #[test]
    fn what_has_not_changed_stays_the_same() {
        let (file, mut reserved) = reserved("8080\n");
        let first = reserved.ports().cloned().unwrap();
        reserved.read();
        assert!(Arc::ptr_eq(reserved.ports().unwrap(), &first));
        std::fs::write(file.path(), "8081\n").unwrap();
        reserved.read();
        let second = reserved.ports().cloned().unwrap();
        assert!(!Arc::ptr_eq(&second, &first));
        reserved.read();
        assert!(Arc::ptr_eq(reserved.ports().unwrap(), &second));
        std::fs::write(file.path(), "nonsense").unwrap();
        reserved.read();
        assert!(reserved.ports().is_some());
        std::fs::write(file.path(), "\n").unwrap();
        reserved.read();
        assert!(reserved.ports().is_none());
    }

    /// The longest text that there is: none but every second port.
    #[test]
    fn a_long_text_is_read_whole() {
        let ports = (1..=u16::MAX).step_by(2);
        let text = ports.map(|port| port.to_string()).collect::<Vec<_>>();
        let text = text.join(",") + "\n";
        assert!((USUAL..MOST).contains(&text.len()));
        let (_file, reserved) = reserved(&text);
        assert_eq!(reserved.text, text.as_bytes());
        assert!(reserved.ports().is_some());
    }

    #[test]
    fn of_a_text_without_end_no_more_is_read_than_there_may_be() {
        let (_file, reserved) = reserved(&"1,".repeat(MOST));
        assert_eq!(reserved.next.len(), MOST);
    }
}
