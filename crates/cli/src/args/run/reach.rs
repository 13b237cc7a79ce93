//! Options of `longshore run`: where else than on the engine a program is reached.

use crate::expose_order::{Expose, ExposeOrder};
use crate::values::YesNo;
use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct ReachArguments {
    /// Whether sockets that are bound to the wildcard are bound on the kernel, too, where loopback
    /// and the host's other addresses reach them: yes, or no; by default yes, or what the
    /// configuration of the engine says (kernel_too)
    #[arg(long, value_name = "yes|no")]
    pub(crate) kernel_too: Option<YesNo>,
    /// Relay this port of the kernel, on all of its addresses or on ADDR alone, to this port of the
    /// program; repeatable. Ranges are relayed port by port (9000-9009:9000-9009). /udp relays
    /// datagrams; /proxy and /proxy-v2 tell the
    /// program who each client is by the PROXY protocol, else all seem to be the engine itself
    #[arg(
        long,
        value_name = "[ADDR:]HOSTPORT:PORT[/udp|/proxy|/proxy-v2]",
        conflicts_with = "engine"
    )]
    pub(crate) expose: Vec<ExposeOrder>,
}

impl ReachArguments {
    /// The ports that are exposed, one by one.
    pub(crate) fn exposed(&self) -> Vec<Expose> {
        let all = self.expose.iter();
        all.flat_map(|ExposeOrder(ports)| ports.iter().copied())
            .collect()
    }
}
