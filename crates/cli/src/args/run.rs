//! The options of `longshore run`.

use super::helpers::session_options;
use crate::accept_on_data::AcceptOrder;
use crate::address::AddressOrder;
use crate::batching::BatchingOrder;
use crate::expose::order::{Expose, ExposeOrder};
use crate::fault::FaultOrder;
use crate::messages::MessageOrder;
use crate::session_limits::SessionLimits;
use crate::values::{
    EngineLoss, EngineName, LoopbackOwner, PortName, Sysctl, Transport, YesNo, congestion, mtu,
};
use clap::Args;
use longshore_engine::Congestion;
use longshore_hostif::attach::SessionOptions;
use longshore_hostif::zero_copy::ZeroCopy;
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;

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
  LONGSHORE_LOG says how much is told of what Longshore does in PROGRAM: error, what makes
  calls fail; warn, the default, what is not done as PROGRAM asked, each kind once and by
  longshore itself; debug, on PROGRAM's stderr, what stays with the kernel, and why.
  LONGSHORE_RUNTIME_DIR is where engines have their sockets, instead of /run/longshore; stat and
  ss then show those alone. In the directory LONGSHORE_STAT_AT_EXIT an engine leaves PID.json when
  it ends, with what stat --json would have said last.

Exit status:
  that of PROGRAM; 128+N if signal N ended it; 127 if it was not found, 126 if it cannot be
  executed, 125 if Longshore failed or its options are wrong; 124 if the engine was lost.

Signals: INT, TERM, HUP, QUIT, USR1, USR2 and WINCH are passed on to PROGRAM. If PROGRAM goes into
the background, longshore stays until the last of its processes has ended.")]
pub(crate) struct RunArguments {
    /// Where packets leave: tap:NAME, a TAP device, made if there is none of this name, or
    /// packet:NAME, an interface beside the kernel (one named tun... is waited for)
    #[arg(long, value_name = "KIND:NAME", conflicts_with = "engine")]
    pub(crate) port: Option<PortName>,
    /// Use the engine that listens at this socket instead of a private one; or, as
    /// link:HOST:PORT or link:unix:PATH, one on another machine, that was started with --link
    #[arg(long, value_name = "SOCKET|link:PLACE")]
    pub(crate) engine: Option<EngineName>,
    /// What carries requests and payload between PROGRAM and the engine: memory, which they share
    /// (the default), or bus:MODEL, which takes as long as that bus with an adapter at it. MODEL
    /// is pcix, pcie-gen3x1 to pcie-gen6x16, cxl, or bandwidth=RATE,latency=TIME, and after
    /// commas, if wanted: adapter-latency=TIME for each request; forwarding=store (the default:
    /// a request counts when all of its payload is read), cut-through (when the first 2 KiB are) or
    /// adaptive (cut-through for what comes alone, else store); in-flight=BYTES of reads
    /// and of writes (256K); fetch=N descriptors at once (32). A bus that is faster than this
    /// machine moves data between its processes changes little: `longshore stat` says so
    #[arg(long, value_name = "memory|bus:MODEL", default_value = "memory")]
    pub(crate) transport: Transport,
    /// The file with the key of the link to the engine, 64 hexadecimal digits, which both ends
    /// have
    #[arg(long, value_name = "FILE", requires = "engine")]
    pub(crate) link_key: Option<PathBuf>,
    /// The engine's address and prefix length; repeatable: one of IPv4, any of IPv6; or dhcp, for
    /// one of IPv4 from a server, or slaac, for those of IPv6 that routers advertise. By default
    /// a free 10.77.N.2/24 and, where the kernel has IPv6, fd4c:6f6e:6773:N::2/64
    #[arg(long, value_name = "ADDR/PREFIX|dhcp|slaac", conflicts_with = "engine")]
    pub(crate) addr: Vec<AddressOrder>,
    /// The router to all other networks, one for each version of IP; without it they stay with
    /// the kernel
    #[arg(long, value_name = "ADDR", conflicts_with = "engine")]
    pub(crate) gateway: Vec<IpAddr>,
    /// Largest packet in bytes, 68 to 65535, with IPv6 from 1280; by default 1500, or what the
    /// device has
    #[arg(long, value_name = "N", value_parser = mtu, conflicts_with = "engine")]
    pub(crate) mtu: Option<usize>,
    /// Who has 127.0.0.0/8 and ::1: the kernel (the default), or the engine for the programs on it
    #[arg(long, value_name = "WHO", conflicts_with = "engine")]
    pub(crate) loopback: Option<LoopbackOwner>,
    /// Whose TCP settings new sockets start from: the host's (net.ipv4.tcp_*, the default), or
    /// Longshore's own
    #[arg(long, value_name = "WHOSE", conflicts_with = "engine")]
    pub(crate) sysctl: Option<Sysctl>,
    /// Congestion control of new sockets: reno, cubic, dctcp or bbr, whatever the kernel has; by
    /// default the engine's. PROGRAM may choose another by TCP_CONGESTION
    #[arg(long, value_name = "NAME", value_parser = congestion)]
    pub(crate) congestion: Option<Congestion>,
    /// Explicit congestion notification, with the numbers of net.ipv4.tcp_ecn; accurate ECN is
    /// 3 to 5, which many kernels do not have
    #[arg(long, value_name = "0..5", value_parser = clap::value_parser!(u8).range(0..=5), conflicts_with = "engine")]
    pub(crate) ecn: Option<u8>,
    /// Tell peers of TCP_USER_TIMEOUT by the option of RFC 5482, and go by what they tell of theirs
    /// (100 s to an hour) where it is not set; Linux does neither
    #[arg(long, conflicts_with = "engine")]
    pub(crate) user_timeout_option: bool,
    /// When requests and completions cross between PROGRAM and the engine: adaptive, when they are
    /// of use (the default), or fixed:N,TIME, when N wait or the first of them has waited for TIME,
    /// as fixed:10,10ms in the paper of 2005, which each round trip then waits for twice. Not with
    /// --transport bus:MODEL, whose adapter fetches by the model
    #[arg(
        long,
        value_name = "adaptive|fixed:N,TIME",
        default_value_t,
        conflicts_with = "engine",
        hide_default_value = true
    )]
    pub(crate) batching: BatchingOrder,
    /// Wake PROGRAM once for each message of the connections that it accepts at PORT, and not for
    /// pieces of one; repeatable. RULE is delimiter:BYTES (with \r, \n, \t, \\ and \xNN), as
    /// '80=delimiter:\r\n\r\n', or length:WIDTH@OFFSET, for a length of so many bytes at that offset
    /// (0 without it) which says how many follow it; after commas le (the least significant byte
    /// first), adjust:N (so many more follow) and max:N (what is longer is no message). A piece
    /// wakes all the same when TIME is over (100ms), and when half of the receive buffer is full;
    /// whoever looks without sleeping sees it. Not with --transport bus:MODEL
    #[arg(long, value_name = "PORT=RULE[,TIME]", conflicts_with = "engine")]
    pub(crate) messages: Vec<MessageOrder>,
    /// Tell PROGRAM of the connections to PORT when they have data, with the first of it, or when
    /// TIME is over (100ms); repeatable. For servers whose clients speak first
    #[arg(long, value_name = "PORT[,TIME]", conflicts_with = "engine")]
    pub(crate) accept_on_data: Vec<AcceptOrder>,
    /// Whether little payload crosses with its descriptor, yes (the default), or all by itself.
    /// Not over a bus or a link
    #[arg(long, value_name = "yes|no")]
    pub(crate) immediate_data: Option<YesNo>,
    /// Whether PROGRAM sees what it receives where the engine has placed it, instead of having it
    /// copied: always, where a call receives whole pages into memory that begins with a page;
    /// auto, where that is cheaper, by a measurement when so much is first received; or never (the
    /// default). It needs Linux 6.11. Not over a bus or a link
    #[arg(
        long,
        value_name = "always|auto|never",
        default_value = "never",
        hide_default_value = true
    )]
    pub(crate) zero_copy: ZeroCopy,
    /// Processes of PROGRAM and its children at most; by default 256
    #[arg(long, value_name = "N", conflicts_with = "engine")]
    pub(crate) max_processes: Option<u32>,
    /// Sockets of all of them at most; by default 65536
    #[arg(long, value_name = "N", conflicts_with = "engine")]
    pub(crate) max_sockets: Option<u32>,
    /// MiB of memory at most for what they send; taken only when used; by default 2048
    #[arg(long, value_name = "MIB", conflicts_with = "engine")]
    pub(crate) send_memory: Option<u32>,
    /// MiB of memory at most for what they receive, at least 32; taken only when used; by
    /// default 2048
    #[arg(long, value_name = "MIB", conflicts_with = "engine")]
    pub(crate) receive_memory: Option<u32>,
    /// Whether sockets that are bound to the wildcard are bound on the kernel, too, where loopback
    /// and the host's other addresses reach them: yes, or no; by default yes, or what the
    /// configuration of the engine says (kernel_too)
    #[arg(long, value_name = "yes|no")]
    pub(crate) kernel_too: Option<YesNo>,
    /// Relay this port of the kernel to this port of the program; repeatable. Ranges are relayed
    /// port by port (9000-9009:9000-9009). /udp relays datagrams; /proxy and /proxy-v2 tell the
    /// program who each client is by the PROXY protocol, else all seem to be the engine itself
    #[arg(
        long,
        value_name = "[ADDR:]HOSTPORT:PORT[/udp|/proxy|/proxy-v2]",
        conflicts_with = "engine"
    )]
    pub(crate) expose: Vec<ExposeOrder>,
    /// What becomes of PROGRAM when the engine is gone: it is ended (SIGTERM, and SIGKILL 10 s
    /// later), or stays without its sockets
    #[arg(long, value_name = "WHAT", default_value = "end")]
    pub(crate) on_engine_loss: EngineLoss,
    /// Hold the processors out of deep idle: shorter round trips, more power (root only; where the
    /// kernel has no driver of idle states it has no effect, and a warning says so)
    #[arg(long)]
    pub(crate) awake: bool,
    /// Let the engine keep its privileges: else it gives up capabilities, files and system calls
    /// that it does not need. PROGRAM is never confined
    #[arg(long, conflicts_with = "engine")]
    pub(crate) no_sandbox: bool,
    /// Record all packets to this pcapng file
    #[arg(long, value_name = "FILE", conflicts_with = "engine")]
    pub(crate) capture: Option<PathBuf>,
    /// Spoil packets on purpose, both ways: loss=2%,reorder=2%,duplicate=1%,corrupt=1%,seed=7
    #[arg(
        long,
        value_name = "FAULTS",
        conflicts_with = "engine",
        hide_short_help = true
    )]
    pub(crate) fault: Option<FaultOrder>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<OsString>,
}

impl RunArguments {
    /// What the session may have.
    pub(crate) fn limits(&self) -> SessionLimits {
        let usual = SessionLimits::default();
        SessionLimits {
            processes: self.max_processes.unwrap_or(usual.processes),
            sockets: self.max_sockets.unwrap_or(usual.sockets),
            send_mib: self.send_memory.unwrap_or(usual.send_mib),
            receive_mib: self.receive_memory.unwrap_or(usual.receive_mib),
        }
    }

    /// The ports that are exposed, one by one.
    pub(crate) fn exposed(&self) -> Vec<Expose> {
        let all = self.expose.iter();
        all.flat_map(|ExposeOrder(ports)| ports.iter().copied())
            .collect()
    }

    /// What is wanted of the session.
    pub(crate) fn session(&self) -> SessionOptions {
        SessionOptions {
            without_immediate_data: self.immediate_data == Some(YesNo::No),
            ..session_options(self.congestion, self.kernel_too)
        }
    }
}
