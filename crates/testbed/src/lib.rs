//! The testbed in which programs meet over TCP/IP: for the end-to-end tests
//! and for the measurements. It owns network namespaces, the processes in them
//! and their files, and nothing of the product: it starts the built `longshore`
//! as a user would. Of packet formats alone it makes use, for tests that write packets
//! themselves ([`packets`]).
//!
//! A *scenario* is what real programs do to each other over the network. It takes
//! the *stack under test* as an argument, and the [`Testbed`] gives it the same
//! picture on the kernel's stack and on Longshore:
//!
//! ```text
//!      peer (kernel)  10.77.0.1 ------ 10.77.0.2  host 0 (stack under test)
//!                     10.77.1.1 ------ 10.77.1.2  host 1 (stack under test)
//! ```
//!
//! With [`Stack::Kernel`] each host is a network namespace on a veth pair; with
//! [`Stack::Longshore`] it is a `longshore run` whose TAP ends in the peer's namespace, and whose
//! program is in a namespace of its own that leads nowhere: what does not go through the engine
//! does not arrive. Namespaces, processes and files belong to one testbed and are gone with it.

mod child;
mod engine;
mod host;
mod netns;
pub mod packets;
pub mod payload;
mod process;
mod product;
pub mod servers;
mod skip;
mod testbed;
mod thread;
mod wait;

pub use child::with_default_signals;
pub use engine::Engine;
pub use host::Host;
pub use netns::Namespace;
pub use process::{Cmd, Finished, Proc, signal};
pub use product::{Stack, longshore};
pub use skip::{in_own_namespace, skip};
pub use testbed::Testbed;
pub use thread::join;
pub use wait::{TIMEOUT, eventually};
