//! Arguments of calls that are passed as words, of which only the call knows what they are.

use super::{In, Out, Strings, Text};
use libc::{c_int, c_void};
use std::marker::PhantomData;
use std::ptr;

/// An argument that is a number or a pointer, as the call's number or its other arguments say.
/// C promises of it what it promises of an argument of that type.
#[repr(transparent)]
#[derive(Debug, Clone, Copy)]
pub struct Argument<'a>(*mut c_void, PhantomData<&'a mut c_void>);

impl Argument<'_> {
    /// The number, or the address.
    pub(crate) fn number(self) -> usize {
        self.0.addr()
    }
}

/// A number, for a call that takes one there.
macro_rules! from_numbers {
    ($($number:ty),*) => {$(
        impl From<$number> for Argument<'_> {
            fn from(number: $number) -> Self {
                Self(ptr::without_provenance_mut(number.word()), PhantomData)
            }
        }
    )*};
}

from_numbers!(c_int, u64);

impl<'a, T> From<In<'a, T>> for Argument<'a> {
    fn from(pointer: In<'a, T>) -> Self {
        Self(pointer.0.cast_mut().cast(), PhantomData)
    }
}

impl<'a, T> From<Out<'a, T>> for Argument<'a> {
    fn from(pointer: Out<'a, T>) -> Self {
        Self(pointer.0.cast(), PhantomData)
    }
}

impl<'a, T> From<Argument<'a>> for In<'a, T> {
    fn from(of: Argument<'a>) -> Self {
        Self(of.0.cast(), PhantomData)
    }
}

impl<'a, T> From<Argument<'a>> for Out<'a, T> {
    fn from(of: Argument<'a>) -> Self {
        Self(of.0.cast(), PhantomData)
    }
}

impl<'a> From<Argument<'a>> for Text<'a> {
    fn from(of: Argument<'a>) -> Self {
        Self::at(of.into())
    }
}

impl<'a> From<Argument<'a>> for Strings<'a> {
    fn from(of: Argument<'a>) -> Self {
        Self::at(of.into())
    }
}

/// What the kernel takes as a word.
pub(crate) trait Word: Copy {
    /// The number, or the address.
    fn word(self) -> usize;
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Word for $number {
            fn word(self) -> usize {
                self as usize
            }
        }

        impl From<Argument<'_>> for $number {
            fn from(of: Argument<'_>) -> Self {
                of.number() as Self
            }
        }
    )*};
}

numbers!(i32, u32, i64, u64, usize);

impl<T> Word for In<'_, T> {
    fn word(self) -> usize {
        self.0.expose_provenance()
    }
}

impl<T> Word for Out<'_, T> {
    fn word(self) -> usize {
        self.0.expose_provenance()
    }
}

impl Word for Argument<'_> {
    fn word(self) -> usize {
        self.0.expose_provenance()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_is_what_the_call_takes_it_for() {
        let minus = Argument::from(-1);
        assert_eq!(minus.number(), usize::MAX);
        assert_eq!((i32::from(minus), u32::from(minus)), (-1, u32::MAX));
        let mut number = 5;
        let place: Out<'_, c_int> = Argument::from(Out::from(&mut number)).into();
        place.put(6);
        assert_eq!((place.get(), number), (Some(6), 6));
        let text = Text::from(Argument::from(In::from(c"a".to_bytes_with_nul())));
        assert_eq!(text.get(), Some(c"a"));
        let null = Argument::from(0);
        assert!(In::<c_int>::from(null).is_null() && Text::from(null).is_null());
        assert_eq!(Strings::from(null).iter().count(), 0);
    }
}
