//! The hash map of a process's own numbers.
//!
//! The standard library's takes a secret from the kernel in each thread, by a function of libc that
//! is a cancellation point: a thread that was cancelled would end in the midst of a call. Nobody
//! else chooses these keys, so they need no secret.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};

/// See the head of the file.
pub type Map<K, V> = HashMap<K, V, BuildHasherDefault<DefaultHasher>>;
