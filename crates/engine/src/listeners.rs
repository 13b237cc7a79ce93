//! The sockets at which an engine is found, bound before the engine is made.
//!
//! Whoever runs an engine may need privileges to bind them that the engine is not to have,
//! and which are given up before the engine starts threads. Owned by the caller until
//! [`Engine::at`](crate::Engine::at) takes them; nobody can connect before that but to the
//! control socket, where questions wait for the engine's first turn.

use crate::EngineError;
use crate::attach::Listener;
use crate::control::ControlServer;
use std::path::Path;

/// Sockets that are bound.
#[derive(Debug)]
pub struct Listeners {
    pub(crate) attach: Listener,
    pub(crate) control: Option<ControlServer>,
}

impl Listeners {
    /// Binds the socket at which programs attach, and the control socket if there is to be
    /// one, in place of sockets at which nobody answers.
    ///
    /// # Errors
    /// [`EngineError::Attach`] and [`EngineError::Control`]: somebody answers there, or the
    /// kernel refuses.
    pub fn bind(attach: &Path, control: Option<&Path>) -> Result<Self, EngineError> {
        Ok(Self {
            attach: Listener::bind(attach)?,
            control: control.map(ControlServer::open).transpose()?,
        })
    }
}
