//! Programs that keep to the rules, under `longshore run`: an echo, a ping that measures how
//! long it waits, one that joins groups, and one that is merely busy.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Bytes of a ping.
const LEN: usize = 64;
/// Pings of a line of what [`ping`] prints.
const WINDOW: usize = 100;
/// From one ping to the next.
const EVERY: Duration = Duration::from_millis(1);
/// For so long a group is joined.
const MEMBER_FOR: Duration = Duration::from_millis(20);
/// As long as a reply may take before it counts as lost.
const LOST: Duration = Duration::from_secs(60);

pub(crate) fn echo(port: &str) {
    let listener = TcpListener::bind(format!("0.0.0.0:{port}")).expect("listen");
    println!("listens");
    for stream in listener.incoming() {
        let mut stream = stream.expect("accept");
        std::thread::spawn(move || {
            let _ = stream.set_nodelay(true);
            let mut bytes = [0; LEN];
            while stream.read_exact(&mut bytes).is_ok() && stream.write_all(&bytes).is_ok() {}
        });
    }
}

/// What the kernel says of how long threads could have run and did not, for others did.
struct Waits(Vec<File>);

impl Waits {
    /// Of all threads that these processes have now. Of none where the kernel does not say.
    fn of(pids: &[u32]) -> Self {
        let tasks = pids
            .iter()
            .filter_map(|pid| std::fs::read_dir(format!("/proc/{pid}/task")).ok());
        let files = tasks
            .flatten()
            .filter_map(|task| File::open(task.ok()?.path().join("schedstat")).ok());
        Self(files.collect())
    }

    /// All that there was so far.
    fn so_far(&self) -> Duration {
        let of_one = |file: &File| {
            let mut text = [0; 64];
            let len = file.read_at(&mut text, 0).ok()?;
            let text = std::str::from_utf8(&text[..len]).ok()?;
            text.split(' ').nth(1)?.parse::<u64>().ok()
        };
        Duration::from_nanos(self.0.iter().filter_map(of_one).sum())
    }
}

/// The 50th and 99th percentile, and the most.
fn percentiles(window: &mut [Duration]) -> [u128; 3] {
    window.sort_unstable();
    [50, 99, 100].map(|percent| window[WINDOW * percent / 100 - 1].as_micros())
}

/// Prints, for each window of pings, the 50th and 99th percentile and the most of how long
/// replies took, in microseconds, and the 99th percentile once more without the time in
/// which this process and the others that have a part in the reply waited for a processor. A
/// ping that is due before the last is answered leaves then.
pub(crate) fn ping(address: &str, parts: &[&str]) {
    let mut pids = vec![std::process::id()];
    pids.extend(parts.iter().map(|pid| pid.parse::<u32>().expect("a pid")));
    let mut stream = TcpStream::connect(address).expect("connect");
    stream.set_nodelay(true).expect("no delay");
    stream.set_read_timeout(Some(LOST)).expect("a timeout");
    let mut due = Instant::now();
    let mut number = 0u64;
    loop {
        let waits = Waits::of(&pids);
        let (mut window, mut own) = (Vec::new(), Vec::new());
        while window.len() < WINDOW {
            if let Some(wait) = due.checked_duration_since(Instant::now()) {
                std::thread::sleep(wait);
            }
            number += 1;
            let mut bytes = [0xa5; LEN];
            bytes[..8].copy_from_slice(&number.to_le_bytes());
            let waited = waits.so_far();
            let began = Instant::now();
            stream.write_all(&bytes).expect("a ping leaves");
            let mut reply = [0; LEN];
            stream
                .read_exact(&mut reply)
                .expect("each ping is answered");
            assert_eq!(reply, bytes, "an answer to another ping");
            let took = began.elapsed();
            window.push(took);
            own.push(took.saturating_sub(waits.so_far() - waited));
            due = Instant::now().max(due + EVERY);
        }
        let [median, p99, most] = percentiles(&mut window);
        let [_, own, _] = percentiles(&mut own);
        println!("{median} {p99} {most} {own}");
    }
}

/// Joins groups of either version of IP and leaves them, for ever: others each time.
pub(crate) fn member() {
    let sockets = [UdpSocket::bind("0.0.0.0:0"), UdpSocket::bind("[::]:0")];
    let [v4, v6] = sockets.map(|socket| socket.expect("a socket"));
    println!("joins");
    for number in 0.. {
        let group4 = Ipv4Addr::from(0xe8_00_00_00 | number & 0xff_ffff);
        let group6 = Ipv6Addr::from((0xff35_u128 << 112) | u128::from(number));
        let any = Ipv4Addr::UNSPECIFIED;
        v4.join_multicast_v4(&group4, &any).expect("it joins");
        v6.join_multicast_v6(&group6, 0).expect("it joins");
        std::thread::sleep(MEMBER_FOR);
        v4.leave_multicast_v4(&group4, &any).expect("it leaves");
        v6.leave_multicast_v6(&group6, 0).expect("it leaves");
    }
}

/// Sends to itself, over four connections, as fast as it goes: the engine has no rest.
pub(crate) fn bulk(address: &str, port: &str) {
    let listener = TcpListener::bind(format!("0.0.0.0:{port}")).expect("listen");
    println!("sends");
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| send_to(&listener, address, port));
        }
    });
}

fn send_to(listener: &TcpListener, address: &str, port: &str) {
    let mut out = TcpStream::connect(format!("{address}:{port}")).expect("connect");
    let (mut inward, _) = listener.accept().expect("accept");
    std::thread::spawn(move || {
        let mut bytes = vec![0; 1 << 16];
        loop {
            match inward.read(&mut bytes) {
                Ok(0) => return,
                Err(e) if e.kind() != ErrorKind::Interrupted => return,
                _ => {}
            }
        }
    });
    let bytes = vec![7; 1 << 16];
    while out.write_all(&bytes).is_ok() {}
}
