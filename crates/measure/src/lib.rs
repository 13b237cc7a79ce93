//! Measurements: Longshore and the kernel, side by side in one run.
//!
//! What it owns: the scenarios that are measured ([`scenarios`]), the small paths between two hosts
//! that are not perfect ([`impaired`], [`relay`]), the small programs that they need
//! ([`programs`]), what stands in for a stack and its server, for a bound ([`generator`]), what crossed while they ran ([`Crossings`]), where the time went ([`Profile`]),
//! what crossings would cost on a bus and what other adapters would have moved ([`crossing`]), the
//! papers' experiments ([`experiments`]) and what each of them gives ([`experiment`]), and how it
//! all is shown ([`report`], [`chart`], [`html`]). The programs `longshore-bench` and
//! `longshore-demo` are made of it, and the command `longshore measure`.
//!
//! A figure is a median of runs that took turns on the two stacks, since the
//! machine may be shared and its speed may change from minute to minute.

pub mod chart;
mod child;
pub mod crossing;
mod crossings;
mod datagram_echo;
mod environment;
pub mod experiment;
pub mod experiments;
mod flood;
pub mod generator;
pub mod html;
pub mod impaired;
pub mod installed;
pub mod interrupted;
mod native;
mod profile;
pub mod programs;
pub mod relay;
pub mod report;
pub mod scenarios;

pub use crossings::Crossings;
pub use environment::{Awake, Environment};
pub use profile::{Profile, ProfileError};

/// Makes an end by panic look like a program's error: the message, no trace.
pub fn plain_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let message = panic
            .payload()
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.payload().downcast_ref::<&str>().copied())
            .unwrap_or("it panicked");
        eprintln!("error: {message}");
    }));
}
