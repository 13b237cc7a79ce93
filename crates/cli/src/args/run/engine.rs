//! Options of `longshore run`: which engine a program is on, and what carries its requests there.

use crate::values::{EngineName, PortName, Transport};
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct EngineArguments {
    /// Where packets leave: tap:NAME, a TAP device, made if there is none of this name, or
    /// packet:NAME, an interface beside the kernel (one named tun... is waited for)
    #[arg(long, value_name = "KIND:NAME", conflicts_with = "engine")]
    pub(crate) port: Option<PortName>,
    /// Use the engine that listens at this socket instead of a private one; or, as
    /// link:HOST:PORT, link:unix:PATH or link:vsock:CID:PORT, one on another machine, that was
    /// started with --link
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
}

impl EngineArguments {
    /// Whether the engine is on another machine.
    pub(crate) fn is_link(&self) -> bool {
        matches!(self.engine, Some(EngineName::Link(_)))
    }
}
