//! How the messages of a stream end, as a program tells the adapter so that it is woken once for
//! each: by a length that stands before them, or by what stands behind them.
//!
//! A rule travels as the value of [`OptionName::ReceiveMessages`](super::OptionName): bits 0 and
//! 1 say which it is, 0 for none. For a length they are followed by its offset (8 bits), its
//! width (4), a bit for the least significant byte first, another that is 0, what is added to it
//! (16, two's complement) and the maximum (32, from bit 32 on); for a delimiter by how long it is
//! (3 bits, to bit 4), three bits that are 0, and its bytes from bit 8 on.

/// Bytes of the longest delimiter.
pub const LONGEST_DELIMITER: usize = 7;
/// Bytes of the widest length.
pub const WIDEST_LENGTH: u8 = 8;

const PREFIX: u64 = 1;
const DELIMITER: u64 = 2;

/// A length that each message has in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LengthPrefix {
    /// Bytes of the message before it.
    pub offset: u8,
    /// Its bytes, 1 to [`WIDEST_LENGTH`].
    pub width: u8,
    /// Its least significant byte comes first.
    pub is_little_endian: bool,
    /// What the message has more behind the length than the length says, in bytes; less, if it
    /// is negative, as where the length counts itself.
    pub adjustment: i16,
    /// The largest length that counts as one, in bytes.
    pub maximum: u32,
}

impl LengthPrefix {
    /// Bytes up to the end of the length: the shortest message.
    #[must_use]
    pub fn header(&self) -> usize {
        usize::from(self.offset) + usize::from(self.width)
    }

    /// Bytes of the message whose first ones, [`header`](Self::header) of them, these are; `None`
    /// if it cannot be one: it is longer than the maximum, or ends before its length does.
    #[must_use]
    pub fn length_of(&self, header: &[u8]) -> Option<u64> {
        let length = header.get(usize::from(self.offset)..self.header())?;
        let mut bytes = [0; 8];
        let missing = 8_usize.checked_sub(length.len())?;
        let number = if self.is_little_endian {
            bytes.get_mut(..length.len())?.copy_from_slice(length);
            u64::from_le_bytes(bytes)
        } else {
            bytes.get_mut(missing..)?.copy_from_slice(length);
            u64::from_be_bytes(bytes)
        };
        let is_one = number <= self.maximum.into();
        let behind = i64::try_from(number).ok().filter(|_| is_one)? + i64::from(self.adjustment);
        Some(u64::try_from(behind).ok()? + self.header() as u64)
    }
}

/// A few bytes with which each message ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delimiter {
    len: u8,
    bytes: [u8; LONGEST_DELIMITER],
}

impl Delimiter {
    /// These bytes, 1 to [`LONGEST_DELIMITER`]; `None` for fewer or more.
    #[must_use]
    pub fn new(from: &[u8]) -> Option<Self> {
        let mut bytes = [0; LONGEST_DELIMITER];
        bytes.get_mut(..from.len())?.copy_from_slice(from);
        let len = from.len() as u8;
        (len != 0).then_some(Self { len, bytes })
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

/// How the messages of a stream end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageRule {
    /// Each says how long it is.
    Length(LengthPrefix),
    /// Each ends with this.
    Delimiter(Delimiter),
}

impl MessageRule {
    /// As the value of an option.
    #[must_use]
    pub fn encode(&self) -> u64 {
        match self {
            Self::Length(prefix) => {
                PREFIX
                    | u64::from(prefix.offset) << 2
                    | u64::from(prefix.width & 15) << 10
                    | u64::from(prefix.is_little_endian) << 14
                    | u64::from(prefix.adjustment.cast_unsigned()) << 16
                    | u64::from(prefix.maximum) << 32
            }
            Self::Delimiter(delimiter) => {
                let mut bytes = [0; 8];
                bytes[1..].copy_from_slice(&delimiter.bytes);
                DELIMITER | u64::from(delimiter.len) << 2 | u64::from_le_bytes(bytes)
            }
        }
    }

    /// The rule that a value means; `None` if it means none.
    #[must_use]
    pub fn decode(value: u64) -> Option<Self> {
        match value & 3 {
            PREFIX => {
                let prefix = LengthPrefix {
                    offset: (value >> 2) as u8,
                    width: (value >> 10) as u8 & 15,
                    is_little_endian: value >> 14 & 1 != 0,
                    adjustment: (value >> 16) as i16,
                    maximum: (value >> 32) as u32,
                };
                let is_one = (1..=WIDEST_LENGTH).contains(&prefix.width);
                is_one.then_some(Self::Length(prefix))
            }
            DELIMITER => {
                let [_, bytes @ ..] = value.to_le_bytes();
                let len = (value >> 2) as usize & 7;
                Delimiter::new(bytes.get(..len)?).map(Self::Delimiter)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_length_comes_back(
            offset: u8, width in 1..=WIDEST_LENGTH, is_little_endian: bool, adjustment: i16,
            maximum: u32
        ) {
            let prefix = LengthPrefix { offset, width, is_little_endian, adjustment, maximum };
            let rule = MessageRule::Length(prefix);
            prop_assert_eq!(MessageRule::decode(rule.encode()), Some(rule));
        }

        #[test]
        fn a_delimiter_comes_back(bytes in proptest::collection::vec(any::<u8>(), 0..10)) {
            let rule = Delimiter::new(&bytes).map(MessageRule::Delimiter);
            prop_assert_eq!(rule.is_some(), (1..=LONGEST_DELIMITER).contains(&bytes.len()));
            if let Some(rule) = rule {
                let MessageRule::Delimiter(delimiter) = rule else { unreachable!() };
                prop_assert_eq!(delimiter.bytes(), &bytes[..]);
                prop_assert_eq!(MessageRule::decode(rule.encode()), Some(rule));
            }
        }

        #[test]
        fn whatever_a_value_means_no_message_is_shorter_than_its_header(
            value: u64, header: [u8; 263]
        ) {
            if let Some(MessageRule::Length(prefix)) = MessageRule::decode(value) {
                let length = prefix.length_of(&header);
                prop_assert!(length.is_none_or(|length| length >= prefix.header() as u64));
            }
        }
    }

    #[test]
    fn a_length_is_read_as_it_says() {
        let mut prefix = LengthPrefix {
            offset: 1,
            width: 2,
            is_little_endian: false,
            adjustment: 0,
            maximum: 0x1ff,
        };
        assert_eq!(prefix.length_of(&[9, 1, 4, 9]), Some(0x104 + 3));
        assert_eq!(prefix.length_of(&[9, 1, 0xff]), Some(0x1ff + 3));
        assert_eq!(
            prefix.length_of(&[9, 2, 0]),
            None,
            "it is beyond the maximum"
        );
        assert_eq!(prefix.length_of(&[9, 1]), None, "it is not there");
        prefix.is_little_endian = true;
        assert_eq!(prefix.length_of(&[9, 4, 1]), Some(0x104 + 3));
        prefix.adjustment = -3;
        assert_eq!(prefix.length_of(&[9, 4, 1]), Some(0x104));
        assert_eq!(
            prefix.length_of(&[9, 2, 0]),
            None,
            "it ends before its length does"
        );
    }
}
