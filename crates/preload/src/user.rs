//! Pointers that C passes, as typed arguments.
//!
//! A function that C calls gets pointers of which C promises what the call's manual page
//! says: that they are null or lead to so much memory, to be read or to be filled, for as
//! long as the call lasts. [`In`] and [`Out`] carry that promise: C makes one by calling, and
//! in Rust one is made of a reference, or by saying `unsafe`. So what the shim does with them
//! is safe code, and all that reads and writes through a program's pointers stands here.
//!
//! A kernel finds out that a pointer is bad when it copies. We would die of it, so callers
//! refuse those to where no program has memory before (`vectors::check`).

mod action;
mod argument;
mod filter;
mod message;
mod strings;

pub use action::{Action, Handler};
pub(crate) use action::{set_of, word_of};
pub use argument::Argument;
pub(crate) use argument::Word;
pub(crate) use filter::Filter;
pub use message::{Buffer, Message, OneMessage};
pub use strings::{Format, Opaque, Run, Start, Strings, Text, VaList};
pub(crate) use strings::{StringsVariable, Variable};

use std::marker::PhantomData;
use std::ptr;

/// What has an address that can be looked at.
pub(crate) trait Pointer: Copy {
    /// The address, without what AArch64 leaves to the program of a pointer.
    fn address(self) -> usize;
}

/// An address without the byte that AArch64 ignores, where allocators that find errors put a tag. The
/// kernel refuses a tag, unless the program has said that it uses some; where it has not, a call
/// with one is done.
#[inline]
const fn untagged(address: usize) -> usize {
    if cfg!(target_arch = "aarch64") {
        address & (usize::MAX >> 8)
    } else {
        address
    }
}

impl<T> Pointer for In<'_, T> {
    fn address(self) -> usize {
        untagged(self.0.addr())
    }
}

impl<T> Pointer for Out<'_, T> {
    fn address(self) -> usize {
        untagged(self.0.addr())
    }
}

impl<T> Pointer for *const T {
    fn address(self) -> usize {
        untagged(self.addr())
    }
}

impl<T> Pointer for *mut T {
    fn address(self) -> usize {
        untagged(self.addr())
    }
}

/// Structures of C of which all bytes may be zero.
///
/// # Safety
/// They may.
pub(crate) unsafe trait Zero: Sized {
    /// One of zeros.
    fn zero() -> Self {
        // SAFETY: the trait's promise.
        unsafe { std::mem::zeroed() }
    }
}

macro_rules! zero {
    ($($structure:ty),*) => {$(
        // SAFETY: numbers, arrays of numbers and pointers, which may be null.
        unsafe impl Zero for $structure {}
    )*};
}

zero!(
    libc::sockaddr,
    libc::sockaddr_storage,
    libc::sockaddr_in,
    libc::sockaddr_in6,
    libc::sigset_t,
    libc::ifreq,
    libc::fd_set,
    libc::hostent
);

/// Null, or memory that C lets us read during a call.
#[repr(transparent)]
#[derive(Debug)]
pub struct In<'a, T>(*const T, PhantomData<&'a T>);

/// Null, or memory that C lets us read and fill during a call.
#[repr(transparent)]
#[derive(Debug)]
pub struct Out<'a, T>(*mut T, PhantomData<&'a mut T>);

impl<T> Clone for In<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for In<'_, T> {}

impl<T> Clone for Out<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<'_, T> {}

impl<'a, T> From<&'a T> for In<'a, T> {
    fn from(of: &'a T) -> Self {
        Self(of, PhantomData)
    }
}

impl<'a, T> From<&'a [T]> for In<'a, T> {
    fn from(of: &'a [T]) -> Self {
        Self(of.as_ptr(), PhantomData)
    }
}

impl<'a, T> From<&'a mut T> for Out<'a, T> {
    fn from(of: &'a mut T) -> Self {
        Self(of, PhantomData)
    }
}

impl<'a, T> From<&'a mut [T]> for Out<'a, T> {
    fn from(of: &'a mut [T]) -> Self {
        Self(of.as_mut_ptr(), PhantomData)
    }
}

impl<'a, T> In<'a, T> {
    pub(crate) const fn null() -> Self {
        Self(ptr::null(), PhantomData)
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    pub(crate) fn as_ptr(self) -> *const T {
        self.0
    }

    /// The same memory, which by the call's other arguments is a `U`.
    pub(crate) fn cast<U>(self) -> In<'a, U> {
        In(self.0.cast(), PhantomData)
    }

    /// What lies there, aligned or not.
    pub(crate) fn get(self) -> Option<T>
    where
        T: Copy,
    {
        if self.is_null() {
            return None;
        }
        // SAFETY: it is not null, and so C lets us read it.
        Some(unsafe { self.0.read_unaligned() })
    }

    /// What lies there, if it is aligned, and may be looked at in place.
    pub(crate) fn as_ref(self) -> Option<&'a T> {
        self.slice(1).first()
    }

    /// The one behind it in an array, `places` on, which by the call's arguments is there.
    pub(crate) fn add(self, places: usize) -> Self {
        Self(self.0.wrapping_add(places), PhantomData)
    }

    /// The one before it in an array, `places` back, which is there.
    #[cfg(target_arch = "aarch64")]
    pub(crate) fn back(self, places: usize) -> Self {
        Self(self.0.wrapping_sub(places), PhantomData)
    }

    /// The first `count` of what lies there; none at a null pointer.
    pub(crate) fn slice(self, count: usize) -> &'a [T] {
        if self.is_null() || count == 0 {
            return &[];
        }
        // SAFETY: it is not null, and by the call's arguments there are so many.
        unsafe { std::slice::from_raw_parts(self.0, count) }
    }
}

impl<'a, T> Out<'a, T> {
    /// Memory of the shim's own.
    ///
    /// # Safety
    /// It is null, or may be read and written as long as the result is used.
    pub(crate) const unsafe fn new(at: *mut T) -> Self {
        Self(at, PhantomData)
    }

    pub(crate) const fn null() -> Self {
        Self(ptr::null_mut(), PhantomData)
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// As [`In::cast`].
    pub(crate) fn cast<U>(self) -> Out<'a, U> {
        Out(self.0.cast(), PhantomData)
    }

    /// To be read only.
    pub(crate) fn as_in(self) -> In<'a, T> {
        In(self.0, PhantomData)
    }

    /// What lies there, aligned or not.
    pub(crate) fn get(self) -> Option<T>
    where
        T: Copy,
    {
        self.as_in().get()
    }

    /// Puts a value there, aligned or not; nothing at a null pointer.
    pub(crate) fn put(self, value: T) {
        if !self.is_null() {
            // SAFETY: it is not null, and so C lets us write there.
            unsafe { self.0.write_unaligned(value) };
        }
    }

    /// What lies there, if it is aligned, to be changed in place: nothing else does so
    /// while the result is used.
    pub(crate) fn as_mut(self) -> Option<&'a mut T> {
        self.slice_mut(1).first_mut()
    }

    /// The one behind it in an array, `places` on, which by the call's arguments is there.
    pub(crate) fn add(self, places: usize) -> Self {
        Self(self.0.wrapping_add(places), PhantomData)
    }

    /// The first `count` of what lies there, in nobody else's hands for so long; none at a
    /// null pointer.
    pub(crate) fn slice_mut(self, count: usize) -> &'a mut [T] {
        if self.is_null() || count == 0 {
            return &mut [];
        }
        // SAFETY: it is not null, and by the call's arguments there are so many, which C has
        // handed to this call alone.
        unsafe { std::slice::from_raw_parts_mut(self.0, count) }
    }

    /// Copies the bytes there.
    pub(crate) fn put_bytes(self, bytes: &[u8]) {
        self.cast::<u8>()
            .slice_mut(bytes.len())
            .copy_from_slice(bytes);
    }
}
