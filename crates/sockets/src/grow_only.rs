//! A list that only grows: what is in it stays for ever, so that it can be looked through
//! without a lock, in handlers of signals and after a fork, too. A thread that is through with an
//! entry marks it as free, by atomics of its own, and it is used again.

use std::sync::atomic::{AtomicPtr, Ordering};

/// The list. New entries come first.
#[derive(Debug)]
pub struct GrowOnly<T: 'static> {
    first: AtomicPtr<Node<T>>,
}

#[derive(Debug)]
struct Node<T: 'static> {
    value: T,
    next: Option<&'static Node<T>>,
}

impl<T: Send + Sync> GrowOnly<T> {
    /// An empty one.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            first: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    fn first(&self) -> Option<&'static Node<T>> {
        // SAFETY: null, or a node that was leaked; `T` may be shared between threads.
        unsafe { self.first.load(Ordering::Acquire).as_ref() }
    }

    /// All that is in it.
    pub fn iter(&self) -> impl Iterator<Item = &'static T> + use<T> {
        std::iter::successors(self.first(), |node| node.next).map(|node| &node.value)
    }

    /// Adds an entry, for ever.
    pub fn push(&self, value: T) -> &'static T {
        let node = Box::leak(Box::new(Node { value, next: None }));
        loop {
            node.next = self.first();
            let next = node.next.map_or(std::ptr::null_mut(), |next| {
                std::ptr::from_ref(next).cast_mut()
            });
            let new = std::ptr::from_mut(node);
            let put = self
                .first
                .compare_exchange(next, new, Ordering::AcqRel, Ordering::Acquire);
            if put.is_ok() {
                return &node.value;
            }
        }
    }
}

impl<T: Send + Sync> Default for GrowOnly<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_several_threads_add_is_there_once() {
        static LIST: GrowOnly<u32> = GrowOnly::new();
        let add = |thread: u32| move || (0..500).for_each(|i| _ = LIST.push(thread * 500 + i));
        let threads: Vec<_> = (0..4).map(|t| std::thread::spawn(add(t))).collect();
        for thread in threads {
            thread.join().unwrap();
        }
        let mut found: Vec<u32> = LIST.iter().copied().collect();
        assert_eq!(LIST.iter().count(), 2000);
        found.sort_unstable();
        assert!(found.into_iter().eq(0..2000));
    }

    #[test]
    fn the_newest_comes_first() {
        let list = GrowOnly::new();
        assert_eq!(list.iter().next(), None);
        let one = list.push(1);
        list.push(2);
        assert_eq!(list.iter().copied().collect::<Vec<_>>(), [2, 1]);
        assert!(std::ptr::eq(list.iter().last().unwrap(), one));
    }
}
