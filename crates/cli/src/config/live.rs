//! The part of a configuration that an engine follows while it runs. `config` reads it;
//! `reload` compares it with what is read later, and sends the engine what has changed.

use crate::accept_on_data::AcceptOrder;
use crate::batching::BatchingOrder;
use crate::messages::MessageOrder;
use crate::values::Sysctl;
use longshore_engine::{Access, Congestion, UserLimits};
use longshore_hostif::Geometry;
use std::time::Duration;

/// What a running engine can follow of its configuration.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) sysctl: Sysctl,
    pub(crate) ecn: Option<u8>,
    pub(crate) congestion: Option<Congestion>,
    pub(crate) user_timeout_option: bool,
    pub(crate) kernel_too: bool,
    pub(crate) batching: BatchingOrder,
    pub(crate) messages: Vec<MessageOrder>,
    pub(crate) accept_on_data: Vec<AcceptOrder>,
    pub(crate) users: Vec<u32>,
    pub(crate) drain: Duration,
    pub(crate) awake: bool,
    pub(crate) geometry: Geometry,
    pub(crate) user_limits: UserLimits,
    pub(crate) access: Access,
    /// As the file has them, to be compared.
    pub(crate) access_rules: String,
}
