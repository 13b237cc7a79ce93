//! C's strings and lists of them, and what only libc looks into, as typed arguments: as
//! [`In`], each carries what C promises of it.

use super::{In, Out};
use libc::{c_char, c_int, c_void};
use std::ffi::CStr;
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Null, or a C string, for as long as the call lasts. The kernel may be asked about one
/// that is somewhere else; a call that looks at it itself does so after that.
#[repr(transparent)]
#[derive(Debug, Clone, Copy)]
pub struct Text<'a>(*const c_char, PhantomData<&'a CStr>);

impl<'a> From<&'a CStr> for Text<'a> {
    fn from(text: &'a CStr) -> Self {
        Self(text.as_ptr(), PhantomData)
    }
}

impl<'a> Text<'a> {
    /// The one that begins there.
    pub(super) fn at(place: In<'a, c_char>) -> Self {
        Self(place.0, PhantomData)
    }

    pub(crate) const fn null() -> Self {
        Self(ptr::null(), PhantomData)
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The string; `None` at a null pointer.
    pub(crate) fn get(self) -> Option<&'a CStr> {
        if self.is_null() {
            return None;
        }
        // SAFETY: it is not null, and so a string that C lets us read.
        Some(unsafe { CStr::from_ptr(self.0) })
    }
}

/// Null, or a list of C strings that ends with a null: arguments, an environment.
#[repr(transparent)]
#[derive(Debug, Clone, Copy)]
pub struct Strings<'a>(In<'a, Text<'a>>);

impl<'a> Strings<'a> {
    /// The one that begins there.
    pub(super) fn at(place: In<'a, Text<'a>>) -> Self {
        Self(place)
    }

    /// A list of our own, if it ends with a null.
    pub(crate) fn of(list: &'a [Text<'a>]) -> Option<Self> {
        let ends = list.last().is_some_and(|last| last.is_null());
        ends.then_some(Self(In::from(list)))
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The strings in their order.
    pub(crate) fn iter(self) -> impl Iterator<Item = &'a CStr> {
        let mut at = self.0;
        std::iter::from_fn(move || {
            // Null, or in a list of which the end was not seen yet.
            let text = at.get()?.get()?;
            at = at.add(1);
            Some(text)
        })
    }
}

/// Null, or something of libc's that only libc looks into.
#[repr(transparent)]
#[derive(Debug)]
pub struct Opaque<T>(*mut T);

impl<T> Clone for Opaque<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Opaque<T> {}

impl<T> Opaque<T> {
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    pub(crate) fn addr(self) -> usize {
        self.0.addr()
    }
}

/// A format of C's, which comes with a [`VaList`] of what it names, and goes to libc with it.
#[repr(transparent)]
#[derive(Debug)]
pub struct Format<'a>(Text<'a>);

/// Arguments of C's, in any number, which libc takes.
#[repr(transparent)]
#[derive(Debug)]
pub struct VaList(*mut c_void);

/// What C has called in a child of `clone`, with the argument that it has passed for it.
pub type Run = extern "C-unwind" fn(Out<'_, c_void>) -> c_int;

/// What C has called in a new thread, with the argument that it has passed for it.
pub type Start = extern "C-unwind" fn(Out<'static, c_void>) -> Out<'static, c_void>;

/// A variable of libc's with such a pointer.
#[repr(transparent)]
pub(crate) struct Variable<T>(AtomicPtr<T>);

impl<T> Variable<T> {
    pub(crate) fn get(&self) -> Opaque<T> {
        Opaque(self.0.load(Ordering::Relaxed))
    }

    pub(crate) fn set(&self, to: Opaque<T>) {
        self.0.store(to.0, Ordering::Relaxed);
    }
}

/// A variable of libc's with such a list.
#[repr(transparent)]
pub(crate) struct StringsVariable(AtomicPtr<Text<'static>>);

impl StringsVariable {
    pub(crate) fn get(&self) -> Strings<'static> {
        let at = self.0.load(Ordering::Relaxed).cast_const();
        Strings(In(at, PhantomData))
    }

    /// Does `work` with `list` in the variable, for all threads. Unless it was changed, what
    /// was there is put back then.
    pub(crate) fn with<T>(&self, list: Strings<'_>, work: impl FnOnce() -> T) -> T {
        let ours = list.0.as_ptr().cast_mut().cast();
        let before = self.0.swap(ours, Ordering::Relaxed);
        let result = work();
        let relaxed = Ordering::Relaxed;
        let _ = self.0.compare_exchange(ours, before, relaxed, relaxed);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_one_only_if_it_ends() {
        let list = [Text::from(c"a"), Text::from(c"b"), Text::null()];
        assert!(Strings::of(&list[..2]).is_none() && Strings::of(&[]).is_none());
        let strings = Strings::of(&list).map(|s| s.iter().collect::<Vec<_>>());
        assert_eq!(strings, Some(vec![c"a", c"b"]));
    }
}
