//! What the table of scripts (`tests/states`) does not show: timers, options, windows,
//! the reasons of drops, and what the machine tells its engine.

#[path = "../support/script.rs"]
mod script;

mod drops;
mod ending;
mod established;
mod syn_received;
mod syn_sent;
mod urgent;
mod user_timeout;
mod windows;
