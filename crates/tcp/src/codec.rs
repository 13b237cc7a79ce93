//! Encoding and decoding of a connection's saved state.
//!
//! Owns [`Save`], which every saved type implements, [`Writer`] and [`Reader`], and the
//! macros that list a part's fields. `restore.rs` puts the parts together. Integers are
//! little-endian and unpadded; the bytes may come from a process that has crashed, so
//! decoding yields a valid value or an [`Invalid`], whatever they hold.

use crate::pos::{MAX_POS, NO_POS, Pos};
use crate::time::Instant;
use longshore_wire::tcp::{FastOpenCookie, TcpFlags};

/// The bytes of a field do not encode a value of its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Invalid(pub(crate) &'static str);

/// A value that is saved and restored in another process.
pub(crate) trait Save: Sized {
    /// Length of the encoding, bytes.
    const LEN: usize;
    /// Encodes the value.
    fn save(&self, out: &mut Writer<'_>);
    /// Decodes a value.
    fn restore(from: &mut Reader<'_>) -> Result<Self, Invalid>;
}

/// Writes bytes into a buffer, from its start.
#[derive(Debug)]
pub(crate) struct Writer<'b> {
    rest: &'b mut [u8],
}

impl<'b> Writer<'b> {
    pub(crate) fn new(bytes: &'b mut [u8]) -> Writer<'b> {
        Writer { rest: bytes }
    }

    /// Appends bytes. The caller's buffer is known at compile time to be large enough;
    /// bytes beyond its end would be left out.
    #[inline(always)]
    pub(crate) fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        if let Some((front, rest)) = core::mem::take(&mut self.rest).split_first_chunk_mut() {
            *front = bytes;
            self.rest = rest;
        }
    }

    /// Appends padding.
    fn skip(&mut self, len: usize) {
        for _ in 0..len {
            self.put([0]);
        }
    }
}

/// Reads bytes from a buffer, from its start.
#[derive(Debug)]
pub(crate) struct Reader<'b> {
    rest: &'b [u8],
}

impl<'b> Reader<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Reader<'b> {
        Reader { rest: bytes }
    }

    #[inline(always)]
    pub(crate) fn take<const N: usize>(&mut self) -> Result<[u8; N], Invalid> {
        let (front, rest) = self.rest.split_first_chunk().ok_or(Invalid("too short"))?;
        self.rest = rest;
        Ok(*front)
    }
}

/// The encoded length of the field that a closure selects, so that a part's length is a
/// constant.
pub(crate) const fn len_of<P, T: Save>(_: fn(&P) -> &T) -> usize {
    T::LEN
}

/// Lists the fields of a part that are saved, in order, and those that are rebuilt, each
/// with its initial value. A field that is in neither list is a compile error.
macro_rules! saved_part {
    ($part:ident {
        saved { $($field:ident),* $(,)? }
        $(rebuilt { $($other:ident: $value:expr),* $(,)? })?
    }) => {
        impl $crate::codec::Save for $part {
            const LEN: usize =
                0 $(+ $crate::codec::len_of(|part: &$part| &part.$field))*;

            #[inline(always)]
            fn save(&self, out: &mut $crate::codec::Writer<'_>) {
                let $part { $($field,)* $($($other: _,)*)? } = self;
                $($crate::codec::Save::save($field, out);)*
            }

            fn restore(
                from: &mut $crate::codec::Reader<'_>,
            ) -> Result<Self, $crate::codec::Invalid> {
                Ok($part {
                    $($field: $crate::codec::Save::restore(from)?,)*
                    $($($other: $value,)*)?
                })
            }
        }
    };
}
pub(crate) use saved_part;

/// Assigns each variant of an enumeration the number that it is saved as; these never
/// change.
macro_rules! saved_enum {
    ($name:ident { $($case:ident = $number:literal),* $(,)? }) => {
        impl $crate::codec::Save for $name {
            const LEN: usize = 1;

            #[inline(always)]
            fn save(&self, out: &mut $crate::codec::Writer<'_>) {
                out.put([match self { $($name::$case => $number,)* }]);
            }

            fn restore(
                from: &mut $crate::codec::Reader<'_>,
            ) -> Result<Self, $crate::codec::Invalid> {
                let [number] = from.take()?;
                match number {
                    $($number => Ok($name::$case),)*
                    _ => Err($crate::codec::Invalid(stringify!($name))),
                }
            }
        }
    };
}
pub(crate) use saved_enum;

/// Saves a set of flags as its bits; restoring rejects unknown bits.
macro_rules! saved_flags {
    ($name:ident: $bits:ty) => {
        impl $crate::codec::Save for $name {
            const LEN: usize = <$bits as $crate::codec::Save>::LEN;

            #[inline(always)]
            fn save(&self, out: &mut $crate::codec::Writer<'_>) {
                self.bits().save(out);
            }

            fn restore(
                from: &mut $crate::codec::Reader<'_>,
            ) -> Result<Self, $crate::codec::Invalid> {
                let bits = <$bits as $crate::codec::Save>::restore(from)?;
                $name::from_bits(bits).ok_or($crate::codec::Invalid(stringify!($name)))
            }
        }
    };
}
pub(crate) use saved_flags;

macro_rules! saved_number {
    ($($number:ty),*) => {
        $(impl Save for $number {
            const LEN: usize = size_of::<$number>();

            #[inline(always)]
            fn save(&self, out: &mut Writer<'_>) {
                out.put(self.to_le_bytes());
            }

            fn restore(from: &mut Reader<'_>) -> Result<Self, Invalid> {
                from.take().map(<$number>::from_le_bytes)
            }
        })*
    };
}
saved_number!(u8, u16, u32, u64);

impl Save for bool {
    const LEN: usize = 1;

    #[inline(always)]
    fn save(&self, out: &mut Writer<'_>) {
        out.put([u8::from(*self)]);
    }

    fn restore(from: &mut Reader<'_>) -> Result<Self, Invalid> {
        match from.take()? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(Invalid("bool")),
        }
    }
}

/// Restoring rejects positions whose comparison or addition could overflow.
impl Save for Pos {
    const LEN: usize = 8;

    #[inline(always)]
    fn save(&self, out: &mut Writer<'_>) {
        out.put(self.to_le_bytes());
    }

    fn restore(from: &mut Reader<'_>) -> Result<Self, Invalid> {
        let pos = Pos::from_le_bytes(from.take()?);
        if (-MAX_POS..=MAX_POS).contains(&pos) || pos == NO_POS {
            Ok(pos)
        } else {
            Err(Invalid("a position"))
        }
    }
}

impl Save for Instant {
    const LEN: usize = 8;

    #[inline(always)]
    fn save(&self, out: &mut Writer<'_>) {
        self.0.save(out);
    }

    fn restore(from: &mut Reader<'_>) -> Result<Self, Invalid> {
        u64::restore(from).map(Instant)
    }
}

impl<T: Save> Save for Option<T> {
    const LEN: usize = 1 + T::LEN;

    #[inline(always)]
    fn save(&self, out: &mut Writer<'_>) {
        self.is_some().save(out);
        match self {
            Some(value) => value.save(out),
            None => out.skip(T::LEN),
        }
    }

    fn restore(from: &mut Reader<'_>) -> Result<Self, Invalid> {
        if bool::restore(from)? {
            return T::restore(from).map(Some);
        }
        for _ in 0..T::LEN {
            from.take::<1>()?;
        }
        Ok(None)
    }
}

impl Save for TcpFlags {
    const LEN: usize = 2;

    #[inline(always)]
    fn save(&self, out: &mut Writer<'_>) {
        self.0.save(out);
    }

    fn restore(from: &mut Reader<'_>) -> Result<Self, Invalid> {
        u16::restore(from).map(TcpFlags)
    }
}

impl Save for FastOpenCookie {
    const LEN: usize = 16 + 2;

    fn save(&self, out: &mut Writer<'_>) {
        let cookie = self.as_bytes();
        let mut bytes = [0; 16];
        for (to, from) in bytes.iter_mut().zip(cookie) {
            *to = *from;
        }
        out.put(bytes);
        (cookie.len() as u8).save(out);
        self.is_experiment().save(out);
    }

    fn restore(from: &mut Reader<'_>) -> Result<Self, Invalid> {
        let bytes: [u8; 16] = from.take()?;
        let len = usize::from(u8::restore(from)?);
        let experimental = bool::restore(from)?;
        let cookie = bytes.get(..len).and_then(FastOpenCookie::new);
        let cookie = cookie.ok_or(Invalid("a Fast Open cookie"))?;
        Ok(cookie.as_experiment(experimental))
    }
}
