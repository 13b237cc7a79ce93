//! The atomics: the standard ones, or loom's when a model is checked.

#[cfg(loom)]
pub(crate) use loom::{
    hint,
    sync::atomic::{AtomicU32, AtomicU64, Ordering, fence},
};
#[cfg(not(loom))]
pub(crate) use std::{
    hint,
    sync::atomic::{AtomicU32, AtomicU64, Ordering, fence},
};
