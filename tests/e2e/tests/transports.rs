//! Unmodified programs whose engine is behind a modelled bus: what they send and get is whole,
//! the bus has carried it, and it takes as long as the model says.

use longshore_e2e::peer::{connect, fetch};
use longshore_e2e::servers::{Nginx, sshd_config};
use longshore_e2e::{Host, Stack, Testbed, eventually, iperf3, run};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const KB: u64 = 1024;
const MB: u64 = 1024 * KB;

/// A scenario with a host whose programs reach their engine over this bus.
fn over(bus: &'static str, body: impl FnOnce(&Testbed, &Host<'_>) + Send + 'static) {
    run(Stack::Longshore, Duration::from_secs(120), move |bed| {
        let transport = format!("bus:{bus}");
        let host = bed.host(0).option("--transport").option(&transport);
        body(bed, &host);
    });
}

/// The bus of the host's one engine, as `stat` shows it, once it has carried so many bytes to
/// the host and to the adapter.
fn carried(host: &Host<'_>, name: &str, least: [u64; 2]) -> serde_json::Value {
    eventually("the bus has carried what it was to", || {
        let bus = host.stat().first()?["transports"][0].clone();
        assert_eq!(bus["name"], format!("bus:{name}"));
        let bytes = ["bytes_to_host", "bytes_to_adapter"].map(|key| bus[key].as_u64());
        let has = bytes[0] >= Some(least[0]) && bytes[1] >= Some(least[1]);
        has.then_some(bus)
    })
}

fn nginx_over(bus: &'static str) {
    over(bus, move |bed, host| {
        let peer = bed.peer();
        let files =
            [1, 64 * KB, 3 * MB].map(|size| (size, bed.payload(&format!("www/{size}"), size).1));
        let nginx = Nginx {
            workers: 2,
            ..Nginx::default()
        };
        let nginx = host.cmd("nginx").arg("-c").arg(nginx.config(bed)).spawn();
        peer.wait_for(host.at(80));
        for (size, hash) in &files {
            let url = format!("http://{}/{size}", host.ip());
            let curl = peer.cmd("curl").timeout(Duration::from_secs(100));
            assert_eq!(&fetch(bed, curl, &url), hash, "{size} bytes");
        }
        carried(host, bus, [100, 3 * MB]);
        assert!(nginx.terminate().status.success());
    });
}

#[test]
fn nginx_over_pcie() {
    nginx_over("pcie-gen4x8");
}

#[test]
fn nginx_over_pcix_that_fetches_one_by_one() {
    nginx_over("pcix,adapter-latency=10000ns,in-flight=4096,fetch=1");
}

#[test]
fn redis_over_cxl() {
    over("cxl", |bed, host| {
        let peer = bed.peer();
        let _redis = host
            .cmd("redis-server")
            .args(["--protected-mode", "no", "--save", ""])
            .spawn();
        peer.wait_for(host.at(6379));
        let ip = host.ip().to_string();
        let value = "x".repeat(100_000);
        let cli = |args: &[&str]| peer.cmd("redis-cli").args(["-h", &ip]).args(args).check();
        assert_eq!(cli(&["set", "key", &value]).trim(), "OK");
        assert_eq!(cli(&["get", "key"]).trim(), value);
        let report = peer
            .cmd("redis-benchmark")
            .args([
                "-h", &ip, "-q", "-n", "1000", "-c", "10", "-t", "set,get", "-d", "500",
            ])
            .check();
        assert!(report.contains("GET:"), "{report}");
        carried(host, "cxl", [600_000, 600_000]);
    });
}

#[test]
fn iperf3_over_pcie_that_cuts_through() {
    over("pcie-gen3x1,forwarding=cut-through", |bed, host| {
        let peer = bed.peer();
        let _server = host.cmd("iperf3").arg("-s").spawn();
        peer.wait_for(host.at(5201));
        iperf3::check(&peer, host.ip(), &["-t", "1", "--bidir"]);
        carried(host, "pcie-gen3x1,forwarding=cut-through", [MB, MB]);
    });
}

#[test]
fn sshd_over_a_bus_of_ones_own() {
    over("bandwidth=1Gb/s,latency=20us", |bed, host| {
        let peer = bed.peer();
        let (config, key) = sshd_config(bed, 2222);
        let _server = host
            .cmd("/usr/sbin/sshd")
            .args(["-D", "-e", "-f"])
            .arg(config)
            .spawn();
        peer.wait_for(host.at(2222));
        let (file, hash) = bed.payload("sent", 2 * MB);
        let there = bed.path("there");
        let shell = format!("cat > {0}; sha256sum {0}", there.display());
        let said = peer
            .cmd("/bin/sh")
            .arg("-ec")
            .arg(format!(
                "ssh -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o BatchMode=yes \
                 -o LogLevel=ERROR -p 2222 -i {} root@{} '{shell}' < {}",
                key.display(),
                host.ip(),
                file.display()
            ))
            .check();
        assert!(said.starts_with(&hash), "{said}");
        carried(host, "bandwidth=1Gb/s,latency=20us", [2 * MB, 100]);
    });
}

/// Echoes a byte, sends as many bytes as it is asked for, or counts those that come.
const SERVER: &str = r"
import socket
s = socket.create_server(('', 7))
print('up', flush=True)
while True:
    c, peer = s.accept()
    while word := c.recv(1):
        if word == b'e':
            c.sendall(word)
            continue
        size = int.from_bytes(c.recv(4), 'little')
        if word == b's':
            c.sendall(bytes(size))
        else:
            while size:
                size -= len(c.recv(min(size, 65536)))
            c.sendall(b'd')
";

/// A connection to [`SERVER`].
fn served(bed: &Testbed, host: &Host<'_>, body: impl FnOnce(&mut TcpStream)) {
    let program = bed.file("server.py", SERVER);
    let server = host.cmd("python3").arg(program).spawn();
    eventually("the server is up", || {
        server.stdout().contains("up").then_some(())
    });
    let mut stream = connect(&bed.peer(), host.at(7));
    stream.set_nodelay(true).expect("no delay");
    body(&mut stream);
}

fn ask(stream: &mut TcpStream, word: u8, size: u32) {
    let mut request = vec![word];
    request.extend(size.to_le_bytes());
    stream.write_all(&request).expect("a request");
}

/// How often what has to be as fast as the model is tried.
const TRIES: usize = 6;

/// Whether `took` is what the model says, or up to a tenth more. Less is wrong at any time;
/// more may be the doing of others, who have the processors now and then.
fn is_modelled(what: &str, took: Duration, model: Duration) -> bool {
    let share = took.as_secs_f64() / model.as_secs_f64();
    assert!(share >= 0.98, "{what}: {took:?} instead of {model:?}");
    let is = share < 1.1;
    if !is {
        eprintln!("{what}: {took:?} instead of {model:?}");
    }
    is
}

/// How long something of this machine has waited for a processor since it was started, if the
/// kernel says so.
fn waited_for_processors() -> Option<Duration> {
    let said = std::fs::read_to_string("/proc/pressure/cpu").ok()?;
    let total = said.lines().next()?.rsplit_once("total=")?.1;
    Some(Duration::from_micros(total.parse().ok()?))
}

/// Tries what others may hold up, until they have not. Where nobody does, it is so at once.
fn is_so_unless_held_up(mut attempt: impl FnMut() -> bool) {
    for _ in 0..TRIES {
        let (began, before) = (Instant::now(), waited_for_processors());
        if attempt() {
            return;
        }
        if let (Some(before), Some(after)) = (before, waited_for_processors()) {
            let share = (after - before).as_secs_f64() / began.elapsed().as_secs_f64();
            assert!(share > 0.1, "nobody was in the way: {share}");
        }
    }
    panic!("it is never as modelled");
}

/// 3 MB are a second at 24 Mb/s, in either direction. The second direction takes two, so that
/// it is all that the last second's share has seen.
#[test]
fn a_bus_is_as_fast_as_its_bandwidth() {
    const BUS: &str = "bandwidth=24Mb/s,latency=20us";
    const BYTES: u32 = 3_000_000;
    over(BUS, |bed, host| {
        served(bed, host, |stream| {
            let mut bytes = vec![0; 2 * BYTES as usize];
            let mut transfers = 0;
            is_so_unless_held_up(|| {
                transfers += 1;
                let (model, began) = (Duration::from_secs(1), Instant::now());
                ask(stream, b's', BYTES);
                stream
                    .read_exact(&mut bytes[..BYTES as usize])
                    .expect("all of it");
                let is_fast = is_modelled("to the adapter", began.elapsed(), model);
                let began = Instant::now();
                ask(stream, b'r', 2 * BYTES);
                stream.write_all(&bytes).expect("send");
                stream.read_exact(&mut [0]).expect("done");
                let is_fast = is_modelled("to the host", began.elapsed(), 2 * model) && is_fast;
                let each = transfers * u64::from(BYTES);
                let bus = carried(host, BUS, [2 * each, each]);
                eprintln!("{bus}");
                is_fast && bus["limit"] == "bus"
            });
        });
    });
}

/// A write to the host, which is half a read; a doorbell, which is the same; a descriptor with
/// its immediate data, which is one read: two reads' time in all.
#[test]
fn a_bus_is_as_slow_as_its_latency() {
    over("bandwidth=1Gb/s,latency=60ms", |bed, host| {
        served(bed, host, |stream| {
            let mut trip = || {
                let began = Instant::now();
                stream.write_all(b"e").expect("send");
                stream.read_exact(&mut [0]).expect("an answer");
                began.elapsed()
            };
            is_so_unless_held_up(|| {
                // More than the second that the bus's share is taken over.
                let quickest = std::iter::repeat_with(&mut trip).take(12).min();
                let quickest = quickest.expect("twelve");
                let is_fast = is_modelled("a round trip", quickest, Duration::from_millis(120));
                // It is asked while there are more, or the share has the time since the last.
                let bus = std::thread::scope(|scope| {
                    let trips = scope.spawn(|| (0..6).map(|_| trip()).max());
                    let bus = carried(host, "bandwidth=1Gb/s,latency=60ms", [1, 1]);
                    trips.join().expect("no panic");
                    bus
                });
                eprintln!("{bus}");
                is_fast && bus["limit"] == "latency"
            });
        });
    });
}
