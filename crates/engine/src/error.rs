//! Why an engine cannot be made or go on.

use crate::attach::ListenError;
use crate::control::ControlError;
use longshore_ports::PortError;
use longshore_stack::AddressError;

/// Why an engine cannot be made or go on.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// Its socket.
    #[error(transparent)]
    Attach(#[from] ListenError),
    /// Its control socket.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// Its own descriptors.
    #[error("the engine cannot set up its event loop: {0}")]
    Events(#[from] rustix::io::Errno),
    /// The kernel does not tell when a program has ended.
    #[error(
        "the kernel does not tell the engine when a program has ended (pidfd_open: {0}); Longshore \
         needs Linux 5.3 or later, and no filter of system calls that refuses it"
    )]
    Deaths(rustix::io::Errno),
    /// The kernel gives no random numbers.
    #[error("the kernel gives the engine no random numbers: {0}")]
    Random(rustix::io::Errno),
    /// The port is gone.
    #[error("the engine's port failed: {0}")]
    Port(PortError),
    /// Its addresses.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// Nobody has given it an address.
    #[error("{0}")]
    NoAddress(longshore_stack::MissingAddress),
    /// It has one worker, and sessions have what it has.
    #[error("sessions of {0} workers are not for this engine, which has one")]
    Workers(u32),
    /// ECN is off, or in one of five modes.
    #[error("the mode {0} of ECN is not from 0 to 5")]
    Ecn(u8),
}
