//! What the tests of ports against the kernel share.

use std::time::{Duration, Instant};

use longshore_ports::{Port, RecvBuffer, RxMeta, SharedRooms, TxFrame};
use longshore_ring::SharedMemory;

/// How long the kernel may take to answer: machines are slow, and busy with other tests.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// Waits for a frame that `wanted` accepts, past whatever else the kernel says.
pub(crate) fn expect_frame(
    port: &mut impl Port,
    buf: &mut [u8],
    wanted: impl Fn(&[u8]) -> bool,
) -> RxMeta {
    let found = look_for_frame(port, buf, TIMEOUT, wanted);
    found.expect("the kernel sends something of the kind")
}

/// Sends `question` until `wanted` accepts what the kernel says: a device that has just
/// come up may not speak yet.
pub(crate) fn ask(
    port: &mut impl Port,
    buf: &mut [u8],
    question: &[u8],
    wanted: impl Fn(&[u8]) -> bool,
) -> RxMeta {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        port.send(&TxFrame::whole(question)).unwrap();
        if let Some(meta) = look_for_frame(port, buf, Duration::from_millis(100), &wanted) {
            return meta;
        }
        assert!(Instant::now() < deadline, "the kernel does not answer");
    }
}

fn look_for_frame(
    port: &mut impl Port,
    buf: &mut [u8],
    limit: Duration,
    wanted: impl Fn(&[u8]) -> bool,
) -> Option<RxMeta> {
    let deadline = Instant::now() + limit;
    loop {
        // The last look comes after the deadline, however long we were kept from it.
        let is_late = Instant::now() >= deadline;
        match port.recv(buf).unwrap() {
            Some(meta) if wanted(&buf[..meta.len]) => return Some(meta),
            Some(_) => {}
            None if is_late => return None,
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Has `datagram` sent with these bytes again and again, and received into place with so much
/// room in two places: its frame has 42 bytes of headers, and comes apart and together.
pub(crate) fn expect_in_place(port: &mut impl Port, room: [usize; 2], send: impl Fn(&[u8])) {
    let data: Vec<u8> = (0..1400u32).map(|i| (i * 7) as u8).collect();
    let memory = SharedMemory::create("test", 8192).unwrap();
    let mut rooms = SharedRooms::default();
    assert!(rooms.push(&memory, 4000, room[0]) && rooms.push(&memory, 100, room[1]));
    let mut buffer = RecvBuffer::new();
    send(&data);
    let deadline = Instant::now() + TIMEOUT;
    let before = port.counters().rx_frames;
    loop {
        assert!(Instant::now() < deadline, "the datagram did not come");
        match port.recv_in_place(&mut buffer, 42, &rooms).unwrap() {
            Some(meta) if buffer.frame(meta.len)[12..14] == [8, 0] && meta.len == 1442 => break,
            Some(_) => {}
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    assert!(port.receives_in_place() && port.counters().rx_frames > before);
    let there = rooms.len().min(1400);
    let mut in_place = vec![0; there];
    rooms.copy_to(&mut in_place);
    assert_eq!(in_place, data[..there]);
    let mut first = vec![0; room[0].min(1400)];
    memory.read(4000, &mut first);
    assert_eq!(first, data[..first.len()]);
    assert_eq!(buffer.frame(1442)[42 + there..], data[there..]);
    buffer.close_gap(42, 1442, &rooms);
    assert_eq!(buffer.frame(1442)[42..], data);
    assert_eq!(buffer.frame(1442)[23], 17, "UDP");
}

/// Runs `ip` with these words.
pub(crate) fn ip(words: &str) {
    let status = std::process::Command::new("ip")
        .args(words.split_whitespace())
        .status()
        .unwrap();
    assert!(status.success(), "ip {words}");
}
