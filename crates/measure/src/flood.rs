//! A flood of SYNs from addresses that are nobody's, and a stream of a steady rate that
//! shows what the flood takes from a peer that is connected already. [`crate::programs`] runs
//! them, for the scenario of the same name.

use crate::report::gigabits;
use longshore_wire::SeqNumber;
use longshore_wire::checksum::Partial;
use longshore_wire::ipv4::{self, Ipv4Header, protocol};
use longshore_wire::tcp::{CHECKSUM_OFFSET, TcpFlags, TcpHeader, TcpOptions, Timestamps};
use rustix::net::{AddressFamily, SocketType, connect, ipproto, socket};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a [`steady`] stream goes on before each of its figures.
pub(crate) const PAUSE: Duration = Duration::from_millis(500);
/// How often those that keep to a rate see what is due.
const BEAT: Duration = Duration::from_millis(1);

/// Sends back all that comes from whoever connects to `at`, one at a time.
pub(crate) fn mirror(at: &str) -> io::Result<()> {
    let mut piece = vec![0; 1 << 16];
    for stream in TcpListener::bind(at)?.incoming() {
        let mut stream = stream?;
        while let Ok(n @ 1..) = stream.read(&mut piece) {
            if stream.write_all(&piece[..n]).is_err() {
                break;
            }
        }
    }
    Ok(())
}

/// Sends so many bytes in a second to a [`mirror`] and prints, in lines of their own, the
/// rate in Gb/s at which they came back in the first so many milliseconds, and in as many
/// after a [`PAUSE`], in which whoever reads the first line may begin a flood.
pub(crate) fn steady(to: &str, bytes_per_second: u64, milliseconds: u64) -> io::Result<()> {
    let mut stream = TcpStream::connect(to)?;
    let mut back = stream.try_clone()?;
    let arrived = Arc::new(AtomicU64::new(0));
    let counter = arrived.clone();
    std::thread::spawn(move || {
        let mut piece = vec![0; 1 << 16];
        while let Ok(n @ 1..) = back.read(&mut piece) {
            counter.fetch_add(n as u64, Ordering::Relaxed);
        }
    });
    // What is held up in `write` must not hold up the clock.
    std::thread::spawn(move || {
        let (start, mut written) = (Instant::now(), 0);
        let piece = vec![b's'; 1 << 20];
        loop {
            let due = share(bytes_per_second, start.elapsed()).saturating_sub(written);
            let now = due.min(piece.len() as u64);
            if stream.write_all(&piece[..now as usize]).is_err() {
                break;
            }
            written += now;
            std::thread::sleep(BEAT);
        }
    });
    for _ in 0..2 {
        std::thread::sleep(PAUSE);
        let (start, before) = (Instant::now(), arrived.load(Ordering::Relaxed));
        std::thread::sleep(Duration::from_millis(milliseconds));
        let bytes = arrived.load(Ordering::Relaxed) - before;
        println!("{}", gigabits(bytes, start.elapsed()));
    }
    Ok(())
}

/// Sends so many SYNs in a second to `to` (0: as many as one thread can) for so many
/// milliseconds, each from an address of its own of 198.18.0.0/15, which is for such
/// tests (RFC 2544); prints how many SYNs a second went out.
pub(crate) fn flood(to: SocketAddrV4, rate: u64, milliseconds: u64) -> io::Result<()> {
    let raw = socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::RAW))?;
    connect(&raw, &SocketAddrV4::new(*to.ip(), 0))?;
    let limit = Duration::from_millis(milliseconds);
    let (start, mut sent) = (Instant::now(), 0);
    while start.elapsed() < limit {
        let due = if rate == 0 {
            64
        } else {
            share(rate, start.elapsed()).saturating_sub(sent)
        };
        for _ in 0..due {
            send(&raw, to, sent as u32)?;
            sent += 1;
        }
        if rate > 0 {
            std::thread::sleep(BEAT);
        }
    }
    println!("{}", sent as f64 / start.elapsed().as_secs_f64());
    Ok(())
}

/// What of so many in a second is due by now.
fn share(per_second: u64, elapsed: Duration) -> u64 {
    (u128::from(per_second) * elapsed.as_micros() / 1_000_000) as u64
}

/// Sends the `i`th SYN. One that finds no room is lost, as it may be on any wire.
fn send(raw: &OwnedFd, to: SocketAddrV4, i: u32) -> io::Result<()> {
    match rustix::io::write(raw, &syn(to, i)) {
        Ok(_) | Err(rustix::io::Errno::NOBUFS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The options of a SYN as today's systems send them take 20 bytes.
const SYN_LEN: usize = ipv4::HEADER_LEN + 40;

/// The packet of the `i`th SYN.
fn syn(to: SocketAddrV4, i: u32) -> [u8; SYN_LEN] {
    let mixed = i.wrapping_mul(0x9e37_79b9);
    let source = Ipv4Addr::from(0xc612_0000 | mixed & 0x1_ffff);
    let header = TcpHeader {
        src_port: 1024 + (mixed >> 17) as u16,
        dst_port: to.port(),
        seq: SeqNumber(mixed),
        ack: SeqNumber(0),
        flags: TcpFlags::SYN,
        window: 64_240,
        urgent: 0,
        options: TcpOptions {
            mss: Some(1460),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps: Some(Timestamps { val: i, echo: 0 }),
            ..TcpOptions::default()
        },
    };
    let mut packet = [0; SYN_LEN];
    let segment = &mut packet[ipv4::HEADER_LEN..];
    header.emit(segment);
    let sum = Partial::of_pseudo_v4(source, *to.ip(), protocol::TCP, segment.len() as u32)
        .plus(Partial::of(segment))
        .finish();
    segment[CHECKSUM_OFFSET..][..2].copy_from_slice(&sum.to_be_bytes());
    let ip = Ipv4Header {
        tos: 0,
        payload_len: segment.len() as u16,
        identification: i as u16,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 64,
        protocol: protocol::TCP,
        source,
        destination: *to.ip(),
    };
    ip.emit(&mut packet);
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syns_are_valid_and_of_different_flows() {
        let to = "10.0.0.1:80".parse().unwrap();
        let mut flows = std::collections::HashSet::new();
        for i in 0..10_000 {
            let packet = syn(to, i);
            let (ip, range) = Ipv4Header::parse(&packet).unwrap();
            let segment = &packet[range];
            let pseudo = Partial::of_pseudo_v4(
                ip.source,
                ip.destination,
                protocol::TCP,
                segment.len() as u32,
            );
            assert_eq!(pseudo.plus(Partial::of(segment)).finish(), 0);
            let (header, len) = TcpHeader::parse(segment).unwrap();
            assert_eq!((header.flags, len), (TcpFlags::SYN, segment.len()));
            assert!(matches!(ip.source.octets(), [198, 18 | 19, ..]));
            assert!(flows.insert((ip.source, header.src_port)));
        }
    }

    #[test]
    fn what_is_due() {
        assert_eq!(share(1_000, Duration::from_micros(2_999)), 2);
        assert_eq!(
            share(u64::MAX >> 20, Duration::from_secs(1)),
            u64::MAX >> 20
        );
    }
}
