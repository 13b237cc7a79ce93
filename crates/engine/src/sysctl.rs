//! The host's TCP settings (`net.ipv4.tcp_*`), which new sockets start from.
//!
//! Administrators set them for the kernel's TCP, and programs expect to live by
//! them. Owned by the engine, asked when a socket is opened. The files stay
//! open, because they show the network namespace of whoever opened them: an
//! engine that goes on into a namespace of its own still reads its program's.

use longshore_tcp::{Config, Congestion, EcnMode, Instant, SynCookies};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// A reading is good for this long, in microseconds, so that a program that
/// opens many sockets costs twenty readings a second and no more.
const GOOD_FOR: u64 = 50_000;
/// Of a file's text, what is read at most: three numbers, or a name.
const LONGEST: usize = 64;

/// Sets what a file's numbers say; there is at least one.
type Setter = fn(&mut Config, &[u64]);

/// The files with numbers, and what each sets.
const NUMBERS: [(&str, Setter); 15] = [
    ("tcp_timestamps", |c, v| c.timestamps = v[0] != 0),
    ("tcp_sack", |c, v| c.sack = v[0] != 0),
    ("tcp_window_scaling", |c, v| c.window_scaling = v[0] != 0),
    ("tcp_rmem", receive_memory),
    ("tcp_ecn", |c, v| {
        if let Some(mode) = EcnMode::from_number(small(v[0])) {
            c.ecn = mode;
        }
    }),
    ("tcp_syncookies", |c, v| {
        if let Some(when) = SynCookies::from_number(small(v[0])) {
            c.syn_cookies = when;
        }
    }),
    ("tcp_abort_on_overflow", |c, v| {
        c.abort_on_overflow = v[0] != 0;
    }),
    ("tcp_syn_retries", |c, v| c.syn_retries = small(v[0]).max(1)),
    ("tcp_synack_retries", |c, v| c.synack_retries = small(v[0])),
    ("tcp_retries2", |c, v| c.retries = small(v[0])),
    ("tcp_orphan_retries", |c, v| {
        // As Linux: 0 stands for 8.
        c.orphan_retries = if v[0] == 0 { 8 } else { small(v[0]) };
    }),
    ("tcp_fin_timeout", |c, v| c.fin_wait_ms = millis(v[0])),
    ("tcp_keepalive_time", |c, v| {
        c.keepalive.idle_ms = millis(v[0])
    }),
    ("tcp_keepalive_intvl", |c, v| {
        c.keepalive.interval_ms = millis(v[0]);
    }),
    ("tcp_keepalive_probes", |c, v| {
        c.keepalive.probes = small(v[0]).max(1);
    }),
];

/// The file with the name of the algorithm; one that we do not have is passed
/// over.
const CONGESTION: &str = "tcp_congestion_control";

/// The most that tcp_rmem allows where nobody has set it (Linux before 6.16, with a
/// gigabyte of memory or more): no choice of an administrator, and less than a path of
/// 1 Gb/s and 100 ms holds.
const KERNEL_DEFAULT: u64 = 6 << 20;

fn small(value: u64) -> u8 {
    value.min(127) as u8
}

fn millis(seconds: u64) -> u32 {
    seconds.min(32_767) as u32 * 1000
}

/// Least, at the start, and most.
fn receive_memory(config: &mut Config, values: &[u64]) {
    let &[_, start, most] = values else {
        return;
    };
    if most == KERNEL_DEFAULT {
        return;
    }
    let bytes = |v: u64| v.clamp(2304, longshore_hostif::STREAM_MAX) as u32;
    config.rcvbuf = bytes(start);
    config.rcvbuf_max = bytes(most.max(start));
}

/// The host's settings, read when they are needed.
#[derive(Debug)]
pub struct HostSettings {
    numbers: Vec<(Setter, File)>,
    congestion: Option<File>,
    config: Config,
    /// When `config` was read; `None` before the first time.
    read_at: Option<Instant>,
}

impl HostSettings {
    /// Opens the files of this thread's network namespace. A kernel lacks some;
    /// what they would set stays at its default.
    #[must_use]
    pub fn open() -> Self {
        Self::of(|name| File::open(format!("/proc/sys/net/ipv4/{name}")).ok())
    }

    fn of(open: impl Fn(&str) -> Option<File>) -> Self {
        HostSettings {
            numbers: NUMBERS
                .iter()
                .filter_map(|(name, setter)| Some((*setter, open(name)?)))
                .collect(),
            congestion: open(CONGESTION),
            config: Config::default(),
            read_at: None,
        }
    }

    /// What a new connection starts from.
    pub(crate) fn tcp(&mut self, now: Instant) -> Config {
        if self.read_at.is_none_or(|t| now.since(t) >= GOOD_FOR) {
            self.config = self.read();
            self.read_at = Some(now);
        }
        self.config
    }

    fn read(&self) -> Config {
        let mut config = Config::default();
        let mut text = [0; LONGEST];
        for (set, file) in &self.numbers {
            let mut values = [0; 3];
            let count = parse(content(file, &mut text), &mut values);
            if count != 0 {
                set(&mut config, &values[..count]);
            }
        }
        if let Some(file) = &self.congestion
            && let Some(congestion) = Congestion::by_name(content(file, &mut text))
        {
            config.congestion = congestion;
        }
        config
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
            ("tcp_ecn", "1\n"),
            ("tcp_syncookies", "2\n"),
            ("tcp_abort_on_overflow", "1\n"),
            ("tcp_syn_retries", "5\n"),
            ("tcp_orphan_retries", "0\n"),
            ("tcp_fin_timeout", "30\n"),
            ("tcp_keepalive_time", "600\n"),
            ("tcp_congestion_control", "reno\n"),
        ]);
        let config = settings.tcp(Instant(1));
        let expected = Config {
            timestamps: false,
            sack: false,
            rcvbuf: 540_000,
            rcvbuf_max: 15_728_640,
            ecn: EcnMode::Request,
            syn_cookies: SynCookies::Always,
            abort_on_overflow: true,
            syn_retries: 5,
            fin_wait_ms: 30_000,
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
            ("tcp_retries2", "\n"),
            ("tcp_ecn", "6\n"),
            ("tcp_congestion_control", "westwood\n"),
        ]);
        assert_eq!(settings.tcp(Instant(1)), Config::default());
    }

    #[test]
    fn the_kernels_own_limit_of_memory_is_nobodys_choice() {
        let (_dir, mut settings) = settings(&[("tcp_rmem", "4096\t131072\t6291456\n")]);
        assert_eq!(settings.tcp(Instant(1)), Config::default());
    }

    #[test]
    fn a_change_is_seen_soon_and_not_at_once() {
        let (dir, mut settings) = settings(&[("tcp_sack", "1\n")]);
        assert!(settings.tcp(Instant(1)).sack);
        std::fs::write(dir.path().join("tcp_sack"), "0\n").unwrap();
        assert!(settings.tcp(Instant(GOOD_FOR)).sack);
        assert!(!settings.tcp(Instant(1 + GOOD_FOR)).sack);
    }

    #[test]
    fn the_kernel_has_the_files() {
        assert_eq!(HostSettings::open().numbers.len(), NUMBERS.len());
    }
}
