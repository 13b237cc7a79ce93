//! The end-to-end tests' own machinery: scenarios that run on both stacks with
//! a time limit, and the socket-API checks. The namespaces and programs are
//! [`longshore_testbed`]'s.

pub mod conformance;
pub mod iperf3;
mod mounts;
mod ordinary;
pub mod peer;
mod scenario;

pub use longshore_testbed::{
    Cmd, Engine, Finished, Host, Namespace, Proc, Stack, TIMEOUT, Testbed, eventually, longshore,
    payload, servers, signal, skip,
};
pub use mounts::with_mounts;
pub use ordinary::as_ordinary_user;
pub use scenario::{run, run_uncounted, soak};
