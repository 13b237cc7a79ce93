//! The host's TCP settings (`net.ipv4.tcp_*` and `net.core.somaxconn`), which new sockets start from.
//!
//! Administrators set them for the kernel's TCP, and programs expect to live by
//! them. Owned by the engine, asked when a socket is opened. The files stay
//! open, because they show the network namespace of whoever opened them: an
//! engine that goes on into a namespace of its own still reads its program's.

mod reserved;

use longshore_stack::{Defaults, LocalPorts, ReservedPorts};
use longshore_tcp::{Congestion, EcnMode, FastOpenKey, FastOpenUse, Instant, SynCookies};
use reserved::Reserved;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// A reading is good for this long, in microseconds: whoever runs `sysctl` and then goes
/// on sees it followed, as starting that takes longer, and a program that opens sockets all
/// the time costs a thousand readings a second (of some 20 us) and no more.
const GOOD_FOR: u64 = 1_000;
/// Of a file's text, what is read at most: three numbers, a name, or two keys.
const LONGEST: usize = 80;

/// The one of these files that is not in net/ipv4.
const SOMAXCONN: &str = "somaxconn";

/// Sets what a file's numbers say; there is at least one.
type Setter = fn(&mut Defaults, &[u64]);

/// The files with numbers, and what each sets.
const NUMBERS: [(&str, Setter); 25] = [
    ("tcp_timestamps", |s, v| s.tcp.timestamps = v[0] != 0),
    ("tcp_sack", |s, v| s.tcp.sack = v[0] != 0),
    ("tcp_window_scaling", |s, v| {
        s.tcp.window_scaling = v[0] != 0
    }),
    ("tcp_rmem", receive_memory),
    ("tcp_wmem", send_memory),
    ("tcp_notsent_lowat", |s, v| {
        // All ones is none.
        let bytes = u32::try_from(v[0]).unwrap_or(u32::MAX);
        s.not_sent_lowat = if bytes == u32::MAX { 0 } else { bytes };
    }),
    ("tcp_ecn", |s, v| {
        if let Some(mode) = EcnMode::from_number(small(v[0])) {
            s.tcp.ecn = mode;
        }
    }),
    ("tcp_syncookies", |s, v| {
        if let Some(when) = SynCookies::from_number(small(v[0])) {
            s.tcp.overflow.syn_cookies = when;
        }
    }),
    ("tcp_abort_on_overflow", |s, v| {
        s.tcp.overflow.abort = v[0] != 0;
    }),
    ("tcp_syn_retries", |s, v| {
        s.tcp.retries.syn = small(v[0]).max(1)
    }),
    ("tcp_synack_retries", |s, v| {
        s.tcp.retries.syn_ack = small(v[0])
    }),
    ("tcp_retries2", |s, v| s.tcp.retries.data = small(v[0])),
    ("tcp_orphan_retries", |s, v| {
        // As Linux: 0 stands for 8.
        s.tcp.retries.orphan = if v[0] == 0 { 8 } else { small(v[0]) };
    }),
    ("tcp_fin_timeout", |s, v| s.tcp.fin_wait_ms = millis(v[0])),
    ("tcp_keepalive_time", |s, v| {
        s.tcp.keepalive.idle_ms = millis(v[0])
    }),
    ("tcp_keepalive_intvl", |s, v| {
        s.tcp.keepalive.interval_ms = millis(v[0]);
    }),
    ("tcp_keepalive_probes", |s, v| {
        s.tcp.keepalive.probes = small(v[0]).max(1);
    }),
    ("tcp_slow_start_after_idle", |s, v| {
        s.tcp.burst.slow_start_after_idle = v[0] != 0;
    }),
    ("tcp_min_tso_segs", |s, v| {
        s.tcp.burst.min_batch = small(v[0]).max(1)
    }),
    ("tcp_stdurg", |s, v| s.tcp.urgent_names_itself = v[0] != 0),
    ("ip_unprivileged_port_start", |s, v| {
        s.unprivileged_from = u16::try_from(v[0]).unwrap_or(u16::MAX);
    }),
    ("ip_local_port_range", |s, v| {
        if let &[first, last] = v
            && let (Ok(first), Ok(last)) = (u16::try_from(first), u16::try_from(last))
            && let Some(ports) = LocalPorts::new(first, last)
        {
            s.local_ports = ports;
        }
    }),
    ("ip_autobind_reuse", |s, v| s.autobind_reuse = v[0] != 0),
    (SOMAXCONN, |s, v| {
        s.most_backlog = u32::try_from(v[0]).unwrap_or(u32::MAX);
    }),
    ("tcp_fastopen", |s, v| {
        s.fast_open = FastOpenUse::from_number(v[0]);
    }),
];

/// The file with the name of the algorithm; one that we do not have is passed
/// over.
const CONGESTION: &str = "tcp_congestion_control";

/// The file with the keys of Fast Open's cookies, the last one after a comma; an engine that may
/// not read it, or finds none set, makes a key of its own.
const FAST_OPEN_KEY: &str = "tcp_fastopen_key";

/// The most that tcp_rmem allows where nobody has set it (Linux before 6.16, with a
/// gigabyte of memory or more): no choice of an administrator, and less than a path of
/// 1 Gb/s and 100 ms holds.
const KERNEL_DEFAULT: u64 = 6 << 20;

/// What the kernel has set tcp_wmem to where nobody has, where it is a size at the start and a most. Linux counts memory
/// with its overhead, and has made more of the former by the time that a connection is
/// made; here bytes are counted, and the buffer begins with more.
const KERNEL_SEND_START: u64 = 16 << 10;
const KERNEL_SEND_MOST: u64 = 4 << 20;

fn small(value: u64) -> u8 {
    value.min(127) as u8
}

fn millis(seconds: u64) -> u32 {
    seconds.min(32_767) as u32 * 1000
}

/// Least, at the start, and most.
fn receive_memory(settings: &mut Defaults, values: &[u64]) {
    let &[_, start, most] = values else {
        return;
    };
    if most == KERNEL_DEFAULT {
        return;
    }
    let bytes = |v: u64| v.clamp(2304, longshore_hostif::STREAM_MAX) as u32;
    settings.tcp.rcv.buffer = bytes(start);
    settings.tcp.rcv.buffer_max = bytes(most.max(start));
}

/// As `receive_memory`, for sending. The least is of no use here: it is what Linux lets a socket
/// have when memory is short, and here a session's is its own.
fn send_memory(settings: &mut Defaults, values: &[u64]) {
    let &[_, start, most] = values else {
        return;
    };
    let bytes = |v: u64| v.clamp(4608, longshore_hostif::STREAM_MAX) as u32;
    if start != KERNEL_SEND_START {
        settings.send_buffer = bytes(start);
    }
    if most != KERNEL_SEND_MOST {
        settings.send_most = bytes(most);
        settings.send_buffer = settings.send_buffer.min(settings.send_most);
    }
}

/// The host's settings, read when they are needed.
#[derive(Debug)]
pub struct HostSettings {
    numbers: Vec<(Setter, File)>,
    congestion: Option<File>,
    fast_open_key: Option<File>,
    reserved: Option<Reserved>,
    settings: Defaults,
    /// When `settings` was read; `None` before the first time.
    read_at: Option<Instant>,
}

impl HostSettings {
    /// Opens the files of this thread's network namespace. A kernel lacks some;
    /// what they would set stays at its default.
    #[must_use]
    pub fn open() -> Self {
        Self::of(|name| {
            let directory = if name == SOMAXCONN { "core" } else { "ipv4" };
            File::open(format!("/proc/sys/net/{directory}/{name}")).ok()
        })
    }

    fn of(open: impl Fn(&str) -> Option<File>) -> Self {
        HostSettings {
            numbers: NUMBERS
                .iter()
                .filter_map(|(name, setter)| Some((*setter, open(name)?)))
                .collect(),
            congestion: open(CONGESTION),
            fast_open_key: open(FAST_OPEN_KEY),
            reserved: open(reserved::FILE).map(Reserved::new),
            settings: Defaults::default(),
            read_at: None,
        }
    }

    /// What a new socket starts from.
    pub(crate) fn get(&mut self, now: Instant) -> Defaults {
        if self.read_at.is_none_or(|t| now.since(t) >= GOOD_FOR) {
            self.settings = self.read();
            self.reserved.iter_mut().for_each(Reserved::read);
            self.read_at = Some(now);
        }
        self.settings
    }

    /// Ports that nobody is given who asks for none in particular, as they were when
    /// [`get`](Self::get) last looked; `None` if there are none.
    pub(crate) fn reserved_ports(&self) -> Option<&Arc<ReservedPorts>> {
        self.reserved.as_ref()?.ports()
    }

    /// The keys that Fast Open's cookies are made of: the one in use, and the last one.
    pub(crate) fn fast_open_keys(&self) -> (Option<FastOpenKey>, Option<FastOpenKey>) {
        let mut text = [0; LONGEST];
        let Some(file) = &self.fast_open_key else {
            return (None, None);
        };
        let mut keys = content(file, &mut text).split(',').map(FastOpenKey::parse);
        (keys.next().flatten(), keys.next().flatten())
    }

    fn read(&self) -> Defaults {
        let mut settings = Defaults::default();
        let mut text = [0; LONGEST];
        for (set, file) in &self.numbers {
            let mut values = [0; 3];
            let count = parse(content(file, &mut text), &mut values);
            if count != 0 {
                set(&mut settings, &values[..count]);
            }
        }
        if let Some(file) = &self.congestion
            && let Some(congestion) = Congestion::by_name(content(file, &mut text))
        {
            settings.tcp.congestion = congestion;
        }
        settings
    }
}

/// A file's content without the newline; empty if it cannot be read.
fn content<'a>(file: &File, text: &'a mut [u8; LONGEST]) -> &'a str {
    let len = file.read_at(text, 0).unwrap_or(0);
    std::str::from_utf8(&text[..len]).unwrap_or_default().trim()
}

/// Reads as many numbers as there are and fit; says how many.
fn parse(text: &str, values: &mut [u64; 3]) -> usize {
    let numbers = text.split_whitespace().map_while(|n| n.parse().ok());
    values
        .iter_mut()
        .zip(numbers)
        .map(|(to, number)| *to = number)
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Kernel;
    use longshore_stack::Host as _;
    use longshore_tcp::{BurstConfig, Config, Overflow, ReceiveLimits, Retries};

    fn settings(files: &[(&str, &str)]) -> (tempfile::TempDir, HostSettings) {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let settings = HostSettings::of(|name| File::open(dir.path().join(name)).ok());
        (dir, settings)
    }

    #[test]
    fn what_the_host_says_is_taken() {
        let (_dir, mut settings) = settings(&[
            ("tcp_timestamps", "0\n"),
            ("tcp_sack", "0\n"),
            ("tcp_window_scaling", "1\n"),
            ("tcp_rmem", "4096\t540000\t15728640\n"),
            ("tcp_wmem", "4096\t70000\t8000000\n"),
            ("tcp_notsent_lowat", "131072\n"),
            ("tcp_ecn", "1\n"),
            ("tcp_syncookies", "2\n"),
            ("tcp_abort_on_overflow", "1\n"),
            ("tcp_syn_retries", "5\n"),
            ("tcp_orphan_retries", "0\n"),
            ("tcp_fin_timeout", "30\n"),
            ("tcp_keepalive_time", "600\n"),
            ("tcp_slow_start_after_idle", "0\n"),
            ("tcp_min_tso_segs", "4\n"),
            ("tcp_stdurg", "1\n"),
            ("ip_local_port_range", "1024\t65535\n"),
            ("ip_autobind_reuse", "1\n"),
            ("tcp_congestion_control", "reno\n"),
            ("somaxconn", "128\n"),
        ]);
        let got = settings.get(Instant(1));
        assert_eq!((got.most_backlog, got.not_sent_lowat), (128, 131_072));
        assert_eq!(Some(got.local_ports), LocalPorts::new(1_024, 65_535));
        assert!(got.autobind_reuse);
        assert_eq!((got.send_buffer, got.send_most), (70_000, 8_000_000));
        let config = got.tcp;
        let expected = Config {
            timestamps: false,
            sack: false,
            rcv: ReceiveLimits::new(540_000, 15_728_640),
            ecn: EcnMode::Request,
            overflow: Overflow {
                syn_cookies: SynCookies::Always,
                abort: true,
            },
            retries: Retries {
                syn: 5,
                ..Retries::default()
            },
            fin_wait_ms: 30_000,
            burst: BurstConfig {
                slow_start_after_idle: false,
                min_batch: 4,
                ..BurstConfig::default()
            },
            urgent_names_itself: true,
            congestion: Congestion::NewReno,
            keepalive: longshore_tcp::Keepalive {
                idle_ms: 600_000,
                ..Default::default()
            },
            ..Config::default()
        };
        assert_eq!(config, expected);
    }

    #[test]
    fn nonsense_and_what_is_missing_leave_the_defaults() {
        let (_dir, mut settings) = settings(&[
            ("tcp_rmem", "lots\n"),
            ("tcp_wmem", "4096 5\n"),
            ("tcp_retries2", "\n"),
            ("tcp_ecn", "6\n"),
            ("tcp_notsent_lowat", "4294967295\n"),
            ("ip_local_port_range", "40000\t30000\n"),
            ("tcp_congestion_control", "westwood\n"),
        ]);
        assert_eq!(settings.get(Instant(1)), Defaults::default());
    }

    #[test]
    fn the_kernels_own_limit_of_memory_is_nobodys_choice() {
        let (_dir, mut settings) = settings(&[
            ("tcp_rmem", "4096\t131072\t6291456\n"),
            ("tcp_wmem", "4096\t16384\t4194304\n"),
        ]);
        assert_eq!(settings.get(Instant(1)), Defaults::default());
    }

    /// What is more than a setting here has room for is the most of it.
    #[test]
    fn large_numbers_are_as_large_as_they_can_be() {
        let (_dir, mut settings) = settings(&[
            ("tcp_retries2", "300\n"),
            ("tcp_synack_retries", "127\n"),
            ("tcp_syn_retries", "0\n"),
            ("tcp_fin_timeout", "99999999999\n"),
            ("tcp_keepalive_intvl", "32767\n"),
            ("tcp_keepalive_time", "32766\n"),
            ("ip_unprivileged_port_start", "70000\n"),
            ("somaxconn", "99999999999\n"),
        ]);
        let got = settings.get(Instant(1));
        let retries = got.tcp.retries;
        assert_eq!((retries.data, retries.syn_ack, retries.syn), (127, 127, 1));
        assert_eq!(got.tcp.fin_wait_ms, 32_767_000);
        let keepalive = got.tcp.keepalive;
        assert_eq!(keepalive.interval_ms, 32_767_000);
        assert_eq!(keepalive.idle_ms, 32_766_000);
        assert_eq!(got.unprivileged_from, u16::MAX);
        assert_eq!(got.most_backlog, u32::MAX);
    }

    #[test]
    fn the_receive_buffer_begins_with_what_is_set_and_is_never_less_than_linux_has() {
        let most = longshore_hostif::STREAM_MAX as u32;
        let table = [
            ("1 1 1", (2_304, 2_304)),
            ("4096 100000 200000", (100_000, 200_000)),
            ("4096 300000 200000", (300_000, 300_000)),
            ("0 18446744073709551615 99999999999", (most, most)),
        ];
        for (text, expected) in table {
            let (_dir, mut settings) = settings(&[("tcp_rmem", text)]);
            let rcv = settings.get(Instant(1)).tcp.rcv;
            assert_eq!((rcv.buffer, rcv.buffer_max), expected, "{text}");
        }
    }

    #[test]
    fn each_size_of_the_send_buffer_counts_if_somebody_has_set_it() {
        let most = longshore_hostif::STREAM_MAX as u32;
        let usual = longshore_hostif::SEND_BUFFER;
        let table = [
            ("4096 16384 33554432", (usual, most)),
            ("4096 65536 4194304", (65_536, most)),
            ("4096 16384 200000", (200_000, 200_000)),
            ("4096 300000 200000", (200_000, 200_000)),
            ("1 1 1", (4_608, 4_608)),
            ("0 18446744073709551615 99999999999", (most, most)),
        ];
        for (text, expected) in table {
            let (_dir, mut settings) = settings(&[("tcp_wmem", text)]);
            let got = settings.get(Instant(1));
            assert_eq!((got.send_buffer, got.send_most), expected, "{text}");
        }
    }

    #[test]
    fn a_change_is_seen_soon_and_not_at_once() {
        let (dir, mut settings) = settings(&[("tcp_sack", "1\n")]);
        assert!(settings.get(Instant(1)).tcp.sack);
        std::fs::write(dir.path().join("tcp_sack"), "0\n").unwrap();
        assert!(settings.get(Instant(GOOD_FOR)).tcp.sack);
        assert!(!settings.get(Instant(1 + GOOD_FOR)).tcp.sack);
    }

    #[test]
    fn fast_open_follows_the_host() {
        let keys = "00000001-00000002-00000003-00000004,00000005-0-0-0\n";
        let (dir, mut settings) =
            settings(&[("tcp_fastopen", "1026\n"), ("tcp_fastopen_key", keys)]);
        let usage = settings.get(Instant(1)).fast_open;
        assert_eq!(usage, FastOpenUse::from_number(0x402));
        assert!(usage.all_listeners && !usage.client);
        let kernel = Kernel(Some(settings));
        let (now, last) = kernel.fast_open_keys().expect("it follows the host");
        assert_eq!(
            now,
            FastOpenKey::parse("00000001-00000002-00000003-00000004")
        );
        assert_eq!(last, FastOpenKey::parse("5-0-0-0"));
        let unset = "00000000-00000000-00000000-00000000\n";
        std::fs::write(dir.path().join("tcp_fastopen_key"), unset).unwrap();
        assert_eq!(kernel.fast_open_keys(), Some((None, None)));
    }

    #[test]
    fn ports_are_reserved_as_the_host_says() {
        let (dir, settings) = settings(&[("ip_local_reserved_ports", "\n")]);
        let mut kernel = Kernel(Some(settings));
        kernel.defaults(Instant(1));
        assert!(kernel.reserved_ports().is_none());
        let reserve = |text| std::fs::write(dir.path().join(reserved::FILE), text).unwrap();
        reserve("40000-40001\n");
        kernel.defaults(Instant(1 + GOOD_FOR));
        assert!(kernel.reserved_ports().is_some());
    }

    #[test]
    fn the_kernel_has_the_files() {
        let settings = HostSettings::open();
        assert_eq!(settings.numbers.len(), NUMBERS.len());
        assert!(settings.reserved.is_some());
    }
}
