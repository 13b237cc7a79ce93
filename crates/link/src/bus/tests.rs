use super::*;
use crate::carrier::Plain;
use crate::protocol::{LONGEST_BODY, Message};
use longshore_hostif::SocketId;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

const SOCKET: SocketId = SocketId {
    index: 3,
    generation: 9,
};

/// The host's end, and the adapter's behind a bus.
fn ends(model: &str) -> (Plain, Modelled<Plain>) {
    let flags = SocketFlags::CLOEXEC;
    let (a, b) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
    let adapter = Modelled::new(Plain::new(b).unwrap(), model.parse().unwrap());
    (Plain::new(a).unwrap(), adapter)
}

fn payload(at: u64, len: usize) -> Vec<u8> {
    let (mut bytes, body) = (Vec::new(), vec![at as u8; len]);
    let (socket, body) = (SOCKET, &body[..]);
    Message::Payload {
        socket,
        at,
        bytes: body,
    }
    .encode(&mut bytes);
    Message::Descriptor([at; 8]).encode(&mut bytes);
    bytes
}

/// Waits until `carrier` has so many bytes.
fn receive(carrier: &mut impl Carrier, len: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while all.len() < len {
        carrier.receive(&mut all).unwrap();
    }
    all
}

#[test]
fn what_the_host_sends_takes_as_long_as_the_bus_does() {
    let (mut host, mut adapter) = ends("bandwidth=1Gb/s,latency=20ms");
    let bytes = payload(1, 1000);
    let began = Instant::now();
    assert_eq!(host.send(&bytes).unwrap(), bytes.len());
    let mut none = Vec::new();
    assert_eq!(adapter.receive(&mut none), Ok(false));
    assert!(adapter.next_at().unwrap() >= began + Duration::from_millis(9));
    assert_eq!(receive(&mut adapter, bytes.len()), bytes);
    // A doorbell, a fetch, and a read.
    assert!(began.elapsed() >= Duration::from_millis(50));
    assert!(adapter.engine.is_idle() && adapter.next_at().is_none());
}

#[test]
fn what_the_adapter_writes_is_posted() {
    let (mut host, mut adapter) = ends("bandwidth=1Gb/s,latency=20ms");
    let bytes = [payload(1, 1000), payload(2, 1000)].concat();
    let began = Instant::now();
    assert_eq!(adapter.send(&bytes).unwrap(), bytes.len());
    assert_eq!(adapter.flush(), Ok(false));
    assert!(!adapter.wants_room());
    while adapter.flush() == Ok(false) {}
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(10), "{took:?}");
    assert_eq!(receive(&mut host, bytes.len()), bytes);
}

#[test]
fn the_adapter_waits_while_too_much_is_under_way() {
    let (_host, mut adapter) = ends("bandwidth=1Gb/s,latency=1ms,in-flight=4K");
    let one = payload(1, 4000);
    let bytes = one.repeat(3);
    // Half of the first message is still less than may be.
    assert!(adapter.send(&bytes).unwrap() < 2 * one.len());
}

#[test]
fn what_the_host_said_before_it_ended_arrives() {
    let (mut host, mut adapter) = ends("bandwidth=1Gb/s,latency=5ms");
    let bytes = payload(1, 100);
    host.send(&bytes).unwrap();
    drop(host);
    assert_eq!(receive(&mut adapter, bytes.len()), bytes);
    assert!(!adapter.wants_input());
    let end = adapter.receive(&mut Vec::new());
    assert_eq!(end, Err(HandshakeError::Closed));
}

#[test]
fn what_means_nothing_is_passed_on_to_be_refused() {
    let (mut host, mut adapter) = ends("bandwidth=10Gb/s,latency=1us");
    let bytes = (LONGEST_BODY as u64 + 1).to_le_bytes();
    host.send(&bytes).unwrap();
    assert_eq!(receive(&mut adapter, 8), bytes);
}

#[test]
fn what_the_bus_does_is_reported() {
    use std::cell::RefCell;
    use std::rc::Rc;
    let (mut host, adapter) = ends("bandwidth=1Gb/s,latency=1us");
    let reports = Rc::new(RefCell::new(Vec::new()));
    let told = Rc::clone(&reports);
    let mut adapter = adapter.reporting_to(move |report| told.borrow_mut().push(*report));
    let bytes = payload(1, 10_000);
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(250) {
        host.send(&bytes).unwrap();
        receive(&mut adapter, bytes.len());
    }
    let reports = reports.borrow();
    assert!((2..=4).contains(&reports.len()), "{}", reports.len());
    let last = reports.last().unwrap();
    assert!(
        last.load.bytes[1] > 10_000 && last.usage.to_adapter > 0.1,
        "{last:?}"
    );
}

#[test]
fn the_limit_is_what_is_used_all_of_the_time() {
    let limit = |to_host, to_adapter, busy| {
        let usage = Usage {
            to_host,
            to_adapter,
            busy,
        };
        usage.limit()
    };
    assert_eq!(limit(0.95, 0.1, 0.99), "bus");
    assert_eq!(limit(0.1, 0.95, 0.99), "bus");
    assert_eq!(limit(0.1, 0.2, 0.95), "latency");
    assert_eq!(limit(0.1, 0.2, 0.5), "host");
}
