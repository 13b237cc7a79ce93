//! The laboratory of the end-to-end tests.
//!
//! A test is a *scenario*: what real programs do to each other over TCP/IP. Each
//! scenario takes the *stack under test* as an argument, and runs twice: on the
//! kernel, which proves the scenario itself, and on Longshore. The [`Lab`] gives
//! it the same picture both times:
//!
//! ```text
//!      peer (kernel)  10.77.0.1 ------ 10.77.0.2  host 0 (stack under test)
//!                     10.77.1.1 ------ 10.77.1.2  host 1 (stack under test)
//! ```
//!
//! With [`Stack::Kernel`] each host is a network namespace on a veth pair; with
//! [`Stack::Longshore`] it is a `longshore run` whose TAP ends in the peer's
//! namespace. Namespaces, processes and files belong to one scenario and are
//! gone with it, also when it fails or hangs.

pub mod conformance;
mod engine;
mod lab;
mod netns;
pub mod payload;
mod process;
mod product;
mod scenario;
pub mod servers;

pub use engine::Engine;
pub use lab::{Host, Lab};
pub use netns::Namespace;
pub use process::{Cmd, Finished, Proc};
pub use product::{Stack, longshore};
pub use scenario::{eventually, run, soak};
