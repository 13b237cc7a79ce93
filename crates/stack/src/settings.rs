//! What the operator has chosen for a stack.

use super::host::Host;
use crate::access::Access;
use crate::messages::TimedRule;
use crate::socket::Options;
use longshore_hostif::Loopback;
use longshore_hostif::adapter::Batching;
use longshore_tcp::{Congestion, EcnMode, Instant};
use std::collections::BTreeMap;

/// What new sockets begin with, what programs and peers may reach, and how the stack deals
/// with its own addresses.
pub struct Settings {
    /// The machine that the programs run on.
    pub host: Box<dyn Host>,
    /// What the operator says of ECN, whatever the host's settings are.
    pub ecn: Option<EcnMode>,
    /// And of the congestion control of new sockets.
    pub congestion: Option<Congestion>,
    /// Connections and their peers tell each other of user timeouts.
    pub user_timeout_option: bool,
    /// Sessions bind the wildcard on the kernel, too, if their launchers have not said.
    pub kernel_too: bool,
    /// Descriptors of new sessions cross in batches of this kind, if not as they are of use.
    pub batching: Option<Batching>,
    /// How the messages of connections end that come to these ports, if their programs do not
    /// say.
    pub messages: BTreeMap<u16, TimedRule>,
    /// For how many milliseconds connections to these ports wait for data before they are handed
    /// to their listeners all the same, if their programs do not say; none waits at others.
    pub accept_on_data: BTreeMap<u16, u32>,
    /// What programs may reach.
    pub access: Access,
    /// The stack that has 127.0.0.0/8 and ::1.
    pub loopback: Loopback,
    /// The number of the port's interface in the programs' kernel; 0 if it has none there.
    pub scope: u32,
    /// Connections between two sockets of the stack pass their bytes on without building
    /// packets.
    pub cut_through: bool,
    /// There is one session, of programs that may see each other's bytes.
    pub has_one_session: bool,
}

impl Settings {
    /// With nothing chosen but these.
    pub fn new(host: Box<dyn Host>, loopback: Loopback, scope: u32, cut_through: bool) -> Self {
        Self {
            host,
            ecn: None,
            congestion: None,
            user_timeout_option: false,
            kernel_too: true,
            batching: None,
            messages: BTreeMap::new(),
            accept_on_data: BTreeMap::new(),
            access: Access::default(),
            loopback,
            scope,
            cut_through,
            has_one_session: false,
        }
    }

    /// For how many milliseconds the connections of a listener with these options, at this port,
    /// wait for data before they are handed over all the same; 0 if they do not.
    pub(crate) fn accepts_on_data(&self, port: u16, options: &Options) -> u32 {
        match options.accept_on_data_ms {
            0 => {
                let of_port = self.accept_on_data.get(&port);
                of_port.copied().unwrap_or(0)
            }
            said => said.into(),
        }
    }

    /// The congestion control of new sockets of whose session nobody has chosen one.
    pub fn default_congestion(&mut self, now: Instant) -> Congestion {
        let host = &mut self.host;
        self.congestion
            .or_else(|| Some(host.defaults(now)?.tcp.congestion))
            .unwrap_or_default()
    }
}
