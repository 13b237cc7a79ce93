//! References to what is never freed, found without a lock.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A place for such a reference; zeros are none.
#[repr(transparent)]
#[derive(Debug)]
pub(crate) struct Leaked<T>(AtomicPtr<T>);

impl<T: Sync> Leaked<T> {
    pub(crate) const fn none() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    #[inline]
    pub(crate) fn get(&self) -> Option<&'static T> {
        // SAFETY: null, or of `set` or `get_or_put`.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    pub(crate) fn set(&self, to: &'static T) {
        let to = ptr::from_ref(to).cast_mut();
        self.0.store(to, Ordering::Release);
    }
}

impl<T: Sync + Send> Leaked<T> {
    /// What is there, or else a new one, which stays there.
    pub(crate) fn get_or_put(&self, new: impl FnOnce() -> T) -> &'static T {
        if let Some(there) = self.get() {
            return there;
        }
        let new = Box::into_raw(Box::new(new()));
        let (null, done) = (ptr::null_mut(), Ordering::AcqRel);
        let first = self.0.compare_exchange(null, new, done, Ordering::Acquire);
        // SAFETY: the new one is nobody else's where it was not the first to be put there; what
        // is there is never freed.
        unsafe {
            match first {
                Ok(_) => &*new,
                Err(there) => {
                    drop(Box::from_raw(new));
                    &*there
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_first_stays() {
        static NUMBER: Leaked<u32> = Leaked::none();
        assert_eq!(NUMBER.get(), None);
        assert_eq!((*NUMBER.get_or_put(|| 1), *NUMBER.get_or_put(|| 2)), (1, 1));
        NUMBER.set(&3);
        assert_eq!(NUMBER.get(), Some(&3));
    }
}
