//! Network interfaces of any kind: their names, their state in the kernel, and
//! notifications when they appear, change or disappear.
//!
//! The ports on top of an interface, `tap` and `packet`, use it. All unsafe code is in
//! `sys`.

mod name;
mod news;
pub(crate) mod sys;

pub use name::{BadName, InterfaceName};
pub(crate) use news::{Link, LinkNews};
