//! The options of `longshore run`, in parts that its help shows one after the other.

mod conduct;
mod crossing;
mod engine;
mod limits;
mod network;
mod reach;
mod tcp;

use super::helpers::session_options;
use crate::values::YesNo;
use clap::Args;
pub(crate) use conduct::{ConductArguments, TrialArguments};
pub(crate) use crossing::CrossingArguments;
pub(crate) use engine::EngineArguments;
pub(crate) use limits::LimitArguments;
use longshore_hostif::attach::SessionOptions;
pub(crate) use network::NetworkArguments;
pub(crate) use reach::ReachArguments;
use std::ffi::OsString;
pub(crate) use tcp::TcpArguments;

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  longshore run -- nginx -g 'daemon off;'
      A network of its own: the first free 10.77.N.0/24, the engine at .2 and the kernel at .1.
  longshore run --addr 192.168.9.2/24 --gateway 192.168.9.1 -- curl http://192.0.2.7/
      The same with a network of your choice; the engine reaches the world through the gateway.
  longshore run --port tap:tap0 --addr 10.0.0.5/24 -- redis-server
      On a TAP device that exists, for instance one in a bridge.
  longshore run --port packet:eth0 --addr 192.168.1.50/24 --gateway 192.168.1.1 -- nginx
      On an interface that the kernel has and keeps: the engine answers for 192.168.1.50 alone.
  longshore run --port packet:eth0 --addr dhcp --addr slaac -- nginx
      The same with addresses from the network's DHCP server and from its routers.
  longshore run --expose 8080:80 -- nginx -g 'daemon off;'
      Reachable at the kernel's port 8080, too. Ordinary users need this to be reached: their
      engine lives in a network namespace that nothing else is in.
  longshore run --engine /run/longshore/engine.sock -- memcached
      On an engine that serves many programs.
  longshore run --engine link:nic.example:4077 --link-key /etc/longshore/link.key -- nginx
      On an engine of another machine, which was started with --link tcp:0.0.0.0:4077.
  longshore run --transport bus:pcie-gen4x8 -- nginx -g 'daemon off;'
      As fast as it would be on an adapter at this bus; longshore stat says what limits it.
  longshore run --transport bus:bandwidth=1Gb/s,latency=20us,adapter-latency=5us -- redis-server
      The same with a bus of your own, and an adapter that takes 5 us for each request.

Which connections go where: sockets that are bound to the engine's address or to the wildcard,
and connections to networks that the engine reaches, are Longshore's. Everything else stays with
the kernel: Unix sockets, other interfaces, and loopback unless --loopback engine is given.

Environment:
  LONGSHORE_LOG           how much is told of what Longshore does in PROGRAM: error, what makes
                          calls fail; warn, the default, what is not done as PROGRAM asked, each
                          kind once and by longshore itself; debug, on PROGRAM's stderr, what
                          stays with the kernel, and why
  LONGSHORE_OWN_CALLS     where system calls go that PROGRAM makes without libc, as Go and Rust's
                          rustix do: kernel, so that its connections stay there; longshore, also
                          where it does not seem to make any; by default to Longshore if it does
  LONGSHORE_RUNTIME_DIR   where engines have their sockets, an absolute path, instead of
                          /run/longshore; stat and ss then show those alone
  LONGSHORE_STAT_AT_EXIT  a directory, in which an engine that ends leaves PID.json, with what
                          stat --json would have said last

Exit status:
  that of PROGRAM; 128+N if signal N ended it; 127 if it was not found, 126 if it cannot be
  executed, 125 if Longshore failed or its options are wrong; 124 if the engine was lost.

Signals: INT, TERM, HUP, QUIT, USR1, USR2 and WINCH are passed on to PROGRAM. If PROGRAM goes into
the background, longshore stays until the last of its processes has ended.")]
pub(crate) struct RunArguments {
    #[command(flatten)]
    pub(crate) engine: EngineArguments,
    #[command(flatten)]
    pub(crate) network: NetworkArguments,
    #[command(flatten)]
    pub(crate) tcp: TcpArguments,
    #[command(flatten)]
    pub(crate) crossing: CrossingArguments,
    #[command(flatten)]
    pub(crate) limits: LimitArguments,
    #[command(flatten)]
    pub(crate) reach: ReachArguments,
    #[command(flatten)]
    pub(crate) conduct: ConductArguments,
    #[command(flatten)]
    pub(crate) trial: TrialArguments,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<OsString>,
}

impl RunArguments {
    /// What is wanted of the session.
    pub(crate) fn session(&self) -> SessionOptions {
        SessionOptions {
            without_immediate_data: self.crossing.immediate_data == Some(YesNo::No),
            ..session_options(self.tcp.congestion, self.reach.kernel_too)
        }
    }
}
