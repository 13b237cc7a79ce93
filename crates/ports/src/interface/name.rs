//! The name of a network interface.

use std::fmt;

/// An interface name that the kernel accepts: 1 to 15 bytes, without `/`, `:` and white
/// space, and not `.` or `..`. It may contain one `%d`, which the kernel replaces by the
/// first free number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct InterfaceName {
    bytes: [u8; 15],
    len: u8,
}

/// Not the name of an interface.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no interface name: 1 to 15 characters, without slash, colon and space; \
     one %d stands for a free number"
)]
pub struct BadName(pub String);

impl InterfaceName {
    /// Checks a name.
    ///
    /// # Errors
    /// [`BadName`].
    pub fn new(name: &str) -> Result<Self, BadName> {
        let pattern_ok = match name.matches('%').count() {
            0 => true,
            1 => name.contains("%d"),
            _ => false,
        };
        let bad = name == "."
            || name == ".."
            || name
                .bytes()
                .any(|b| b == b'/' || b == b':' || !b.is_ascii_graphic());
        if bad || !pattern_ok {
            return Err(BadName(name.to_owned()));
        }
        Self::from_kernel(name.as_bytes()).ok_or_else(|| BadName(name.to_owned()))
    }

    /// A name returned by the kernel.
    pub(crate) fn from_kernel(name: &[u8]) -> Option<Self> {
        let mut bytes = [0; 15];
        bytes.get_mut(..name.len())?.copy_from_slice(name);
        (!name.is_empty()).then_some(InterfaceName {
            bytes,
            len: name.len() as u8,
        })
    }

    /// Its bytes, without a terminator.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Whether the kernel is to fill in a number.
    pub fn is_pattern(&self) -> bool {
        self.as_bytes().contains(&b'%')
    }
}

impl fmt::Display for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.as_bytes()))
    }
}

impl fmt::Debug for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InterfaceName({self})")
    }
}

impl std::str::FromStr for InterfaceName {
    type Err = BadName;

    fn from_str(name: &str) -> Result<Self, BadName> {
        Self::new(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_the_kernel_takes() {
        for good in ["tap0", "ls%d", "fifteen-bytes-1", "a.b"] {
            assert_eq!(InterfaceName::new(good).unwrap().to_string(), good);
        }
        for bad in [
            "",
            ".",
            "..",
            "a/b",
            "a:1",
            "a b",
            "sixteen-bytes-12",
            "%s",
            "%d%d",
            "50%",
            "é",
        ] {
            assert!(InterfaceName::new(bad).is_err(), "{bad:?}");
        }
    }
}
