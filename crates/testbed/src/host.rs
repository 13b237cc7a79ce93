//! The hosts of a testbed: where programs run, and the links between them.
//!
//! Owns [`Host`], and how its namespaces and links are made; `engine` starts shared engines
//! on one.

use crate::testbed::{LAST_STATS, RUNTIME_DIR, Testbed};
use crate::{Cmd, Namespace, Stack, longshore};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

impl Testbed {
    /// The far end: a host on the kernel's stack.
    #[must_use]
    pub fn peer(&self) -> Host<'_> {
        Host {
            bed: self,
            namespace: Arc::clone(&self.peer),
            programs: None,
            number: None,
            options: Vec::new(),
            before: Vec::new(),
            cpu: None,
        }
    }

    /// A host on the stack under test. With Longshore, each program started on
    /// it has an engine of its own, so only one at a time can have its address.
    #[must_use]
    pub fn host(&self, number: u8) -> Host<'_> {
        let namespace = Arc::clone(
            self.hosts
                .lock()
                .expect("no panic while it is held")
                .entry(number)
                .or_insert_with(|| match self.stack {
                    Stack::Kernel => Arc::new(self.veth(number)),
                    Stack::Longshore => {
                        if self.cubic {
                            self.tap(number);
                        }
                        Arc::clone(&self.peer)
                    }
                }),
        );
        // For a measurement, nothing stands between the launcher and its program.
        let programs = (self.stack == Stack::Longshore && !self.cubic).then(|| {
            let mut programs = self.programs.lock().expect("no panic while it is held");
            Arc::clone(programs.entry(number).or_default())
        });
        Host {
            bed: self,
            namespace,
            programs,
            number: Some(number),
            options: Vec::new(),
            before: Vec::new(),
            cpu: None,
        }
    }

    /// A host on the stack under test at the end of a veth pair, where Longshore
    /// stands beside the kernel, which has 10.77.N.3 there. To be used before
    /// [`Testbed::host`] with the same number.
    ///
    /// # Panics
    /// If the pair cannot be made.
    #[must_use]
    pub fn host_beside_the_kernel(&self, number: u8) -> Host<'_> {
        if self.stack == Stack::Longshore {
            let host = Namespace::new();
            self.pair(number, &host);
            self.set_up(&self.peer, &format!("host{number}"), number, 1);
            host.ip(&format!("address add 10.77.{number}.3/24 dev eth0"));
            host.ip("link set eth0 up");
            // It does not forward, so it ignores packets for addresses that it does not own.
            for setting in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
                host.enter(|| fs::write(format!("/proc/sys/net/{setting}"), "0"))
                    .expect("stop forwarding");
            }
            self.hosts
                .lock()
                .expect("no panic while it is held")
                .insert(number, Arc::new(host));
        }
        let host = self.host(number);
        match self.stack {
            Stack::Longshore => host.option("--port").option("packet:eth0"),
            Stack::Kernel => host,
        }
    }

    /// A veth pair between the peer and a host's namespace.
    fn pair(&self, number: u8, host: &Namespace) {
        self.peer.ip(&format!(
            "link add host{number} type veth peer name eth0 netns {}",
            host.name()
        ));
    }

    /// A host on the kernel's stack: a namespace at the end of a veth pair.
    fn veth(&self, number: u8) -> Namespace {
        let host = Namespace::new();
        self.pair(number, &host);
        for (namespace, device, last) in [
            (&*self.peer, &*format!("host{number}"), 1),
            (&host, "eth0", 2),
        ] {
            self.set_up(namespace, device, number, last);
        }
        host.await_link("eth0");
        host.ip(&format!(
            "route add default via 10.77.{number}.1 {}",
            self.metrics()
        ));
        host.ip(&format!("route add default via fd77:0:0:{number:x}::1"));
        host
    }

    /// A TAP for an engine, made before it.
    fn tap(&self, number: u8) {
        let device = format!("host{number}");
        self.peer.ip(&format!("tuntap add dev {device} mode tap"));
        self.set_up(&self.peer, &device, number, 1);
    }

    fn set_up(&self, namespace: &Namespace, device: &str, number: u8, last: u8) {
        namespace.ip(&format!(
            "address add 10.77.{number}.{last}/24 dev {device}"
        ));
        namespace.ip(&format!(
            "address add fd77:0:0:{number:x}::{last}/64 dev {device} nodad"
        ));
        namespace.ip(&format!("link set {device} up"));
        namespace.ip(&format!(
            "route replace 10.77.{number}.0/24 dev {device} proto kernel scope link \
             src 10.77.{number}.{last} {}",
            self.metrics()
        ));
    }

    /// What all routes say about connections that use them.
    fn metrics(&self) -> &'static str {
        if self.cubic { "congctl lock cubic" } else { "" }
    }
}

/// A place where programs run: the kernel peer, or a host under test.
#[derive(Debug, Clone)]
pub struct Host<'l> {
    pub(crate) bed: &'l Testbed,
    namespace: Arc<Namespace>,
    /// Where its programs run, if that is another: with Longshore, a namespace with nothing
    /// in it but a loopback, so that what does not go through the engine goes nowhere.
    programs: Option<Arc<Namespace>>,
    /// Of a host under test.
    pub(crate) number: Option<u8>,
    /// Further options for `longshore run`.
    options: Vec<OsString>,
    /// What executes its programs, with their engines.
    before: Vec<OsString>,
    /// The processor to which its programs (and engines) are bound.
    cpu: Option<usize>,
}

impl Host<'_> {
    /// Its address. The peer has one on each host's link; this is the one
    /// towards host 0.
    #[must_use]
    pub fn ip(&self) -> IpAddr {
        match self.number {
            None => IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1)),
            Some(number) => IpAddr::V4(Ipv4Addr::new(10, 77, number, 2)),
        }
    }

    /// Its IPv6 address; the peer has one on each host's link, too.
    #[must_use]
    pub fn ip6(&self) -> IpAddr {
        let last = if self.number.is_none() { 1 } else { 2 };
        self.of_link6(last)
    }

    /// Address `last` of its link's IPv6 network.
    fn of_link6(&self, last: u16) -> IpAddr {
        let link = u16::from(self.number.unwrap_or(0));
        IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, link, 0, 0, 0, last))
    }

    /// Its IPv6 address with a port.
    #[must_use]
    pub fn at6(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.ip6(), port)
    }

    /// Its address with a port.
    #[must_use]
    pub fn at(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.ip(), port)
    }

    /// The router it uses: the peer's address on its link.
    #[must_use]
    pub fn gateway(&self) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(10, 77, self.number.unwrap_or(0), 1))
    }

    /// The router it uses for IPv6.
    #[must_use]
    pub fn gateway6(&self) -> IpAddr {
        self.of_link6(1)
    }

    /// The namespace in which it is: with Longshore, its engines.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Adds an option for `longshore run`; the kernel has no use for it.
    #[must_use]
    pub fn option(mut self, option: impl AsRef<OsStr>) -> Self {
        self.options.push(option.as_ref().to_owned());
        self
    }

    /// Has its programs, and their engines, started by a command that executes what it is given.
    #[must_use]
    pub fn executed_by(mut self, command: &[&OsStr]) -> Self {
        self.before.extend(command.iter().map(OsString::from));
        self
    }

    /// Binds its programs, and their engines, to one processor.
    #[must_use]
    pub fn on_cpu(mut self, cpu: Option<usize>) -> Self {
        self.cpu = cpu;
        self
    }

    /// A program on this host.
    #[must_use]
    pub fn cmd(&self, program: impl AsRef<OsStr>) -> Cmd {
        let mut prefix = self.in_namespace();
        prefix.extend(self.before.iter().cloned());
        if let (Stack::Longshore, Some(number)) = (self.bed.stack, self.number) {
            prefix.push(longshore().into_os_string());
            let mut options = format!(
                "run --addr {}/24 --gateway {} --addr {}/64 --gateway {}",
                self.ip(),
                self.gateway(),
                self.ip6(),
                self.gateway6()
            );
            if self.bed.cubic {
                // Its own defaults, CUBIC among them, whatever the machine has.
                options.push_str(&format!(" --port tap:host{number} --sysctl none"));
            }
            prefix.extend(options.split_whitespace().map(OsString::from));
            prefix.extend(self.options.iter().cloned());
            prefix.push("--".into());
            prefix.extend(self.programs_prefix());
        }
        self.start(prefix, program.as_ref())
    }

    /// The command `longshore` itself, in this host's namespace.
    #[must_use]
    pub fn longshore(&self) -> Cmd {
        self.start(self.in_namespace(), longshore().as_os_str())
    }

    /// The command prefix that runs a program in the programs' namespace.
    pub(crate) fn programs_prefix(&self) -> Vec<OsString> {
        let Some(programs) = &self.programs else {
            return Vec::new();
        };
        let words = format!("nsenter --net=/run/netns/{} --", programs.name());
        words.split_whitespace().map(OsString::from).collect()
    }

    fn start(&self, prefix: Vec<OsString>, program: &OsStr) -> Cmd {
        Cmd::new(&self.bed.path("logs"), prefix, program)
            .env(RUNTIME_DIR, self.bed.runtime_directory())
            .env("LONGSHORE_STAT_AT_EXIT", self.bed.path(LAST_STATS))
    }

    /// Keeps the statistics of an engine, as `stat --json` has written them.
    pub(crate) fn keep_stat(&self, pid: i32, said: &str) {
        let all: Vec<serde_json::Value> = serde_json::from_str(said).unwrap_or_default();
        if let Some(stat) = all.first() {
            let path = self.bed.path(LAST_STATS).join(format!("{pid}-kept.json"));
            // Where it cannot be written, nothing counts as carried.
            let _ = fs::write(path, stat.to_string());
        }
    }

    /// The namespace in which its programs run: its own, and with Longshore another than
    /// its engines'.
    #[must_use]
    pub fn programs(&self) -> &Namespace {
        self.programs.as_ref().unwrap_or(&self.namespace)
    }

    /// Has its programs run where its engines are, with all that is in that namespace.
    #[must_use]
    pub fn with_its_engine(mut self) -> Self {
        self.programs = None;
        self
    }

    fn in_namespace(&self) -> Vec<OsString> {
        let mut words = format!(
            "ip netns exec {} setpriv --pdeathsig KILL",
            self.namespace.name()
        );
        if let Some(cpu) = self.cpu {
            words.push_str(&format!(" taskset -c {cpu}"));
        }
        words.split_whitespace().map(OsString::from).collect()
    }

    /// What `longshore stat --json` says about the engines of this scenario.
    ///
    /// # Panics
    /// If that is no JSON.
    #[must_use]
    pub fn stat(&self) -> Vec<serde_json::Value> {
        let said = self.longshore().args(["stat", "--json"]).check();
        let all: Vec<serde_json::Value> =
            serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}"));
        all
    }

    /// A shell script on this host: all its programs share one engine.
    #[must_use]
    pub fn sh(&self, script: &str) -> Cmd {
        self.cmd("/bin/sh").arg("-ec").arg(script)
    }

    /// Waits until `port` of `at` takes connections, seen from this host's
    /// namespace.
    ///
    /// # Panics
    /// If it does not within [`TIMEOUT`](crate::TIMEOUT).
    pub fn wait_for(&self, at: SocketAddr) {
        self.namespace.enter(|| {
            crate::eventually(&format!("{at} takes connections"), || {
                TcpStream::connect_timeout(&at, Duration::from_secs(2)).ok()
            })
        });
    }

    /// The scenario's files.
    #[must_use]
    pub fn files(&self) -> &Path {
        self.bed.files.path()
    }
}
