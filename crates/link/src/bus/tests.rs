use super::*;
use crate::byte_stream::Plain;
use crate::protocol::{LONGEST_BODY, Message};
use longshore_hostif::{EdgeFlags, SocketId};
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

/// Waits until `stream` has so many bytes.
fn receive(stream: &mut impl ByteStream, len: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while all.len() < len {
        stream.receive(&mut all).unwrap();
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

/// Immediate data is there with its descriptor; what is not all of it is read apart.
#[test]
fn immediate_data_takes_one_round_trip() {
    let took = |immediate: u16| {
        let (mut host, mut adapter) = ends("bandwidth=1Gb/s,latency=20ms");
        let mut bytes = Vec::new();
        let (socket, body) = (SOCKET, &[7; 1000][..]);
        Message::Payload {
            socket,
            at: 0,
            bytes: body,
        }
        .encode(&mut bytes);
        let payload = bytes.len();
        let request = Request::Edges {
            socket,
            snd_edge: 1000,
            rcv_consumed: 0,
            flags: EdgeFlags::empty(),
            immediate,
        };
        Message::Descriptor(request.encode()).encode(&mut bytes);
        // Before its descriptor has come, nothing is known of the payload.
        host.send(&bytes[..payload]).unwrap();
        assert_eq!(adapter.receive(&mut Vec::new()), Ok(false));
        assert_eq!(adapter.next_at(), None);
        host.send(&bytes[payload..]).unwrap();
        assert_eq!(receive(&mut adapter, bytes.len()), bytes);
        let load = adapter.engine.load(u64::MAX);
        (load.accesses, load.bytes[1])
    };
    // The doorbell and the fetch.
    assert_eq!(took(1000), (2, 4 + 24 + 1000));
    assert_eq!(took(500), (3, 4 + 24 + 1000));
}

#[test]
fn what_the_adapter_writes_is_posted() {
    let (mut host, mut adapter) = ends("bandwidth=1Gb/s,latency=20ms");
    let bytes = [payload(1, 1000), payload(2, 1000)].concat();
    let began = Instant::now();
    assert_eq!(adapter.send(&bytes).unwrap(), bytes.len());
    while adapter.flush() == Ok(false) {
        assert!(!adapter.wants_room());
    }
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

/// The shares of a bus that does nothing from 500 to 900 ms: of the second before each report.
#[test]
fn shares_are_those_of_the_last_second() {
    use std::cell::RefCell;
    use std::rc::Rc;
    let last = Rc::new(RefCell::new(0.0));
    let (told, began) = (Rc::clone(&last), Instant::now());
    let mut reporting = Reporting::to(
        move |report| *told.borrow_mut() = report.usage.to_host,
        began,
    );
    let mut share = |ms: u32| {
        let at = began + Duration::from_millis(ms.into());
        let load = |_| Load {
            taken_ns: [f64::from(ms.min(500) + ms.saturating_sub(900)) * 1e6, 0.0],
            ..Load::default()
        };
        reporting.note(at, load);
        reporting.report(at, load, 0);
        *last.borrow()
    };
    let shares: Vec<_> = (0..=500)
        .step_by(50)
        .chain((900..=1950).step_by(50))
        .map(|ms| (ms, share(ms)))
        .collect();
    assert!(shares.contains(&(1400, 0.6)), "{shares:?}");
    assert_eq!(shares.last(), Some(&(1950, 1.0)), "{shares:?}");
}

/// Reports, and the shares in them, of a bus that is taken to the adapter all of the first half
/// second, and half of the time from the tenth on.
#[test]
fn what_the_bus_does_is_reported() {
    use std::cell::RefCell;
    use std::rc::Rc;
    let reports = Rc::new(RefCell::new(Vec::new()));
    let (told, began) = (Rc::clone(&reports), Instant::now());
    let mut reporting = Reporting::to(move |report| told.borrow_mut().push(*report), began);
    let at = |ms| began + Duration::from_millis(ms);
    let taken = |ms: f64| Load {
        taken_ns: [0.0, ms * 1e6],
        ..Load::default()
    };
    let mut passes = |ms, load: Load| {
        reporting.note(at(ms), |_| load);
        reporting.report(at(ms), |_| load, 7);
    };
    for ms in (0..=500).step_by(10) {
        passes(ms, taken(ms as f64));
    }
    for ms in (0..=2500).step_by(10) {
        passes(10_000 + ms, taken(500.0 + ms as f64 / 2.0));
    }
    let reports = reports.borrow();
    assert_eq!(reports.len(), 6 + 26);
    assert!(reports.iter().all(|report| report.late_ns == 7));
    let shares: Vec<_> = reports.iter().map(|r| r.usage.to_adapter).collect();
    assert!(shares[1..6].iter().all(|share| *share == 1.0), "{shares:?}");
    assert!(shares[7..].iter().all(|share| *share == 0.5), "{shares:?}");
}

/// What passes over the bus is told of, with what it took.
#[test]
fn who_wants_to_know_is_told_of_what_passes() {
    use std::cell::RefCell;
    use std::rc::Rc;
    let (mut host, adapter) = ends("bandwidth=1Gb/s,latency=5ms");
    let last = Rc::new(RefCell::new(Report::default()));
    let told = Rc::clone(&last);
    let mut adapter = adapter.reporting_to(move |report| *told.borrow_mut() = *report);
    let bytes = payload(1, 1000);
    host.send(&bytes).unwrap();
    receive(&mut adapter, bytes.len());
    // It is due after what was told of the beginning.
    let due = adapter.next_at().unwrap();
    while Instant::now() < due {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(adapter.receive(&mut Vec::new()), Ok(false));
    let report = *last.borrow();
    // A doorbell, a descriptor, and the payload.
    assert_eq!(report.load.accesses, 3);
    assert!(report.load.busy_ns >= 12.5e6, "{report:?}");
    // How large that share is depends on when it was looked.
    assert!(report.usage.busy > 0.0, "{report:?}");
    assert!(adapter.next_at().is_none());
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
