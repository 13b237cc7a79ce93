//! Options of `longshore run`: the network that a private engine is on.

use crate::address::AddressOrder;
use crate::values::{LoopbackOwner, mtu};
use clap::Args;
use std::net::IpAddr;

#[derive(Debug, Args)]
pub(crate) struct NetworkArguments {
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
    /// The stack that has 127.0.0.0/8 and ::1: the kernel (the default), or the engine for the
    /// programs on it
    #[arg(long, value_name = "WHO", conflicts_with = "engine")]
    pub(crate) loopback: Option<LoopbackOwner>,
}
