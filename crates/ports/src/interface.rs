//! Network interfaces, whatever their kind: their names, what the kernel says
//! of them, and the news of their coming, changing and going.
//!
//! Used by the ports that stand on one, `tap` and `packet`. Everything that
//! needs unsafe code is in `sys`.

mod name;
mod news;
pub(crate) mod sys;

pub use name::{BadName, InterfaceName};
pub(crate) use news::{Link, LinkNews};
