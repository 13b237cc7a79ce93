//! Network interfaces of any kind: their names, their state in the kernel, and
//! notifications when they appear, change or disappear.
//!
//! The ports on top of an interface, `tap` and `packet`, use it. All unsafe code is in
//! `sys`.

mod link_events;
mod name;
pub(crate) mod sys;

pub(crate) use link_events::{Link, LinkEvents};
pub use name::{BadName, InterfaceName};
