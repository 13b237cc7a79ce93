//! What the shim has to say to the person who runs the program: messages to a Unix datagram socket of
//! the launcher's, so that nothing of it stands among what the program itself writes. The
//! launcher makes the socket and names it in the program's environment; the shim finds it
//! there, and writes to standard error where there is none.

/// The environment variable that names the socket: an abstract name, a colon, and the
/// secret by which the launcher knows those whom it has started, both in hexadecimal.
pub const WARNINGS_VARIABLE: &str = "LONGSHORE_WARNINGS";
/// Bytes of the secret.
pub const SECRET_BYTES: usize = 16;
/// The kind of what may be said more than once.
pub const NO_KIND: u8 = u8::MAX;
/// Bytes of the longest message.
pub const WARNING_BYTES: usize = SECRET_BYTES + 1 + 512;

/// A message, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Warning<'a> {
    /// What it is about: each kind needs to be shown once. [`NO_KIND`] is none.
    pub kind: u8,
    /// What it says: a line, without its end.
    pub text: &'a [u8],
}

impl<'a> Warning<'a> {
    /// Writes it to `to`; how long it is. A text that is too long is cut.
    pub fn encode(&self, secret: &[u8; SECRET_BYTES], to: &mut [u8; WARNING_BYTES]) -> usize {
        let (head, rest) = to.split_at_mut(SECRET_BYTES + 1);
        head[..SECRET_BYTES].copy_from_slice(secret);
        head[SECRET_BYTES] = self.kind;
        let len = self.text.len().min(rest.len());
        rest[..len].copy_from_slice(&self.text[..len]);
        SECRET_BYTES + 1 + len
    }

    /// Reads a message; `None` if it is from somebody who does not know the secret.
    pub fn decode(bytes: &'a [u8], secret: &[u8; SECRET_BYTES]) -> Option<Self> {
        let (theirs, rest) = bytes.split_at_checked(SECRET_BYTES)?;
        let (kind, text) = rest.split_first()?;
        (theirs == secret).then_some(Self { kind: *kind, text })
    }
}

/// Where warnings go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// The socket's abstract name.
    pub name: Vec<u8>,
    /// What the launcher knows its own by.
    pub secret: [u8; SECRET_BYTES],
}

impl Destination {
    /// The value of [`WARNINGS_VARIABLE`].
    pub fn encode(&self) -> String {
        format!("{}:{}", hex(&self.name), hex(&self.secret))
    }

    /// Reads the variable's value.
    pub fn decode(value: &str) -> Option<Self> {
        let (name, secret) = value.split_once(':')?;
        Some(Self {
            name: bytes(name)?,
            secret: bytes(secret)?.try_into().ok()?,
        })
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let pair = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
    (0..hex.len()).step_by(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn messages_come_back(kind: u8, text in proptest::collection::vec(any::<u8>(), 0..512), secret: [u8; 16], other: [u8; 16]) {
            let mut message = [0; WARNING_BYTES];
            let warning = Warning { kind, text: &text };
            let len = warning.encode(&secret, &mut message);
            prop_assert_eq!(Warning::decode(&message[..len], &secret), Some(warning));
            if other != secret {
                prop_assert_eq!(Warning::decode(&message[..len], &other), None);
            }
        }

        #[test]
        #[cfg_attr(miri, ignore = "to make any string takes it minutes")]
        fn any_bytes_may_come(junk in proptest::collection::vec(any::<u8>(), 0..40), value: String) {
            let _ = Warning::decode(&junk, &[0; SECRET_BYTES]);
            let _ = Destination::decode(&value);
        }

        #[test]
        fn half_a_byte_is_none(name in proptest::collection::vec(any::<u8>(), 1..9)) {
            let all = hex(&name);
            prop_assert_eq!(bytes(&all), Some(name));
            for odd in [&all[1..], "é", "1é", "zz"] {
                prop_assert_eq!(bytes(odd), None);
            }
        }

        #[test]
        fn destinations_come_back(name in proptest::collection::vec(any::<u8>(), 0..60), secret: [u8; 16]) {
            let destination = Destination { name, secret };
            prop_assert_eq!(Destination::decode(&destination.encode()), Some(destination));
        }
    }
}
