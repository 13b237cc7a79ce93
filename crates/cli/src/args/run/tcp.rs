//! Options of `longshore run`: what TCP is like on new sockets.

use crate::values::{Sysctl, congestion};
use clap::Args;
use longshore_engine::Congestion;

#[derive(Debug, Args)]
pub(crate) struct TcpArguments {
    /// Whose TCP settings new sockets start from: the host's (net.ipv4.tcp_*,
    /// net.ipv4.ip_local_port_range, ip_local_reserved_ports and ip_autobind_reuse, net.core.somaxconn,
    /// the default), or Longshore's own
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
}
