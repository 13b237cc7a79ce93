//! How an engine is set up: what `cli`, the tests and the measurements give to
//! [`Engine::new`](crate::Engine::new).

use longshore_hostif::{Geometry, Loopback};
use longshore_net::Cidr;
use longshore_ports::Port;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// How an engine is set up.
pub struct Config {
    /// Where its packets go.
    pub port: Box<dyn Port>,
    /// What the port is called, as `tap:longshore0`, for those who ask.
    pub port_name: String,
    /// Its addresses, each with the prefix it is in: at most one of IPv4, any number
    /// of IPv6 up to 15. With one of IPv6 it also has a link-local one.
    pub addresses: Vec<Cidr>,
    /// Addresses and routers that it finds itself.
    pub automatic: longshore_stack::Automatic,
    /// The routers to everywhere else, at most one for each version of IP; without one
    /// the engine reaches its own prefixes and leaves the rest to the kernel.
    pub gateways: Vec<IpAddr>,
    /// The number of its port's interface in its programs' kernel, by which they name
    /// it in link-local addresses; 0 if it has none there.
    pub scope: u32,
    /// The stack that has 127.0.0.0/8 and ::1.
    pub loopback: Loopback,
    /// Connections between two of its own sockets pass their bytes on without
    /// building packets.
    pub cut_through: bool,
    /// Where programs find it.
    pub socket: PathBuf,
    /// Where `stat` and `ss` find it.
    pub control: Option<PathBuf>,
    /// How much each session can have of everything.
    pub geometry: Geometry,
    /// End when the last session has ended.
    pub private: bool,
    /// Programs of other users may join the sessions of a private engine: its user is root,
    /// whose programs may become theirs.
    pub others_may_join: bool,
    /// The users whose programs may use it; empty for everybody who can open
    /// the socket.
    pub users: Vec<u32>,
    /// How long to look for work before sleeping.
    pub spin: Duration,
    /// On which processor it runs.
    pub placement: Placement,
    /// How long connections may go on after the engine was asked to stop.
    pub grace: Duration,
}

/// On which processor an engine runs, of those that its thread may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Placement {
    /// Where the scheduler puts it, or on that of the program that asks most, if that was tried
    /// and more was done there.
    #[default]
    Tried,
    /// Where the scheduler puts it.
    Scheduler,
}
