//! Ports that know no more than the trait has by default.

use super::*;
use longshore_ring::SharedMemory;

/// Has one frame to be received into one buffer.
struct One(Vec<u8>);

impl Port for One {
    fn capabilities(&self) -> &Capabilities {
        unreachable!("nobody asks")
    }

    fn recv_scatter(&mut self, parts: &mut [IoSliceMut<'_>]) -> Result<Option<RxMeta>, PortError> {
        let [part] = parts else {
            unreachable!("there is one part")
        };
        let len = self.0.len();
        part[..len].copy_from_slice(&self.0);
        let (checksum, gso) = (RxChecksum::Unknown, None);
        Ok((len != 0).then_some(RxMeta { len, checksum, gso }))
    }

    fn send(&mut self, _: &TxFrame<'_>) -> Result<(), PortError> {
        unreachable!("nobody sends")
    }

    fn counters(&self) -> &PortCounters {
        unreachable!("nobody asks")
    }
}

#[test]
fn a_port_that_cannot_receive_into_place_copies() {
    let memory = SharedMemory::create("test", 4096).unwrap();
    let mut rooms = SharedRooms::default();
    assert!(rooms.push(&memory, 10, 2) && rooms.push(&memory, 20, 3));
    let mut buffer = RecvBuffer::new();
    let cases: [(&[u8], &[u8]); 5] = [
        (b"hea", b""),
        (b"head", b""),
        (b"headab", b"ab"),
        (b"headabcde", b"abcde"),
        (b"headabcdefg", b"abcde"),
    ];
    for (frame, payload) in cases {
        let mut port: Box<dyn Port> = Box::new(One(frame.to_vec()));
        assert!(!port.receives_in_place());
        rooms.fill(b".....");
        let meta = port.recv_in_place(&mut buffer, 4, &rooms).unwrap().unwrap();
        let mut there = [0; 5];
        rooms.copy_to(&mut there);
        assert_eq!(there[..payload.len()], *payload);
        assert_eq!(there[payload.len()..], b"....."[payload.len()..]);
        // What the buffer has in the gap does not count.
        if let Some(gap) = buffer.room().get_mut(4..9) {
            gap.fill(0);
        }
        buffer.close_gap(4, meta.len, &rooms);
        assert_eq!(buffer.frame(meta.len), frame);
    }
    let mut none = One(Vec::new());
    assert_eq!(none.recv_in_place(&mut buffer, 4, &rooms), Ok(None));
}
