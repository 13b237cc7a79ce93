//! How many finished frames a port takes in a second, if nobody wants them: the generator
//! writes one frame again and again, whose station is not there.

use longshore_ports::memory::{self, MemoryConfig};
use longshore_ports::{Port, PortError, RecvBuffer, TxFrame};
use longshore_wire::MacAddr;
use longshore_wire::ethernet::{EtherType, EthernetHeader};
use std::time::{Duration, Instant};

/// Bytes of the frames, with the Ethernet header.
pub(super) const SIZES: [usize; 2] = [64, 1514];
/// A station that is not there, and a protocol for experiments (IEEE 802).
const NOBODY: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);
const EXPERIMENTS: u16 = 0x88b5;
/// Frames between two looks at the clock; no more than a memory wire holds.
const BATCH: u32 = 128;

fn frame(size: usize) -> Vec<u8> {
    let mut frame = vec![0; size];
    let header = EthernetHeader {
        destination: NOBODY,
        source: NOBODY,
        ether_type: EtherType::Other(EXPERIMENTS),
    };
    header.emit(&mut frame);
    frame
}

/// Calls `batch`, which gives how many frames it moved, for so long; frames a second.
fn rate(
    time: Duration,
    mut batch: impl FnMut() -> Result<u32, PortError>,
) -> Result<f64, PortError> {
    let (start, mut frames) = (Instant::now(), 0_u64);
    while start.elapsed() < time {
        frames += u64::from(batch()?);
    }
    #[expect(clippy::cast_precision_loss, reason = "a rate to show")]
    let frames = frames as f64;
    Ok(frames / start.elapsed().as_secs_f64())
}

/// Frames a second of `size` bytes that the port takes.
pub(super) fn sent(port: &mut dyn Port, size: usize, time: Duration) -> Result<f64, PortError> {
    let frame = frame(size);
    rate(time, || {
        let mut taken = 0;
        for _ in 0..BATCH {
            match port.send(&TxFrame::whole(&frame)) {
                Ok(()) => taken += 1,
                Err(PortError::Full) => {}
                Err(error) => return Err(error),
            }
        }
        port.flush()?;
        Ok(taken)
    })
}

/// Frames a second that go into a memory wire and out of it, in one thread.
pub(super) fn through_memory(size: usize, time: Duration) -> Result<f64, PortError> {
    let (mut near, mut far) = memory::pair(&MemoryConfig::default());
    let (frame, mut room) = (frame(size), RecvBuffer::new());
    rate(time, || {
        for _ in 0..BATCH {
            near.send(&TxFrame::whole(&frame))?;
        }
        let mut received = 0;
        while far.recv_single(&mut room)?.is_some() {
            received += 1;
        }
        Ok(received)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_wire_takes_comes_out() {
        let time = Duration::from_millis(1);
        for size in SIZES {
            assert!(through_memory(size, time).unwrap() > 0.0);
        }
        // A wire that nobody reads takes as many as it holds.
        let (mut near, far) = memory::pair(&MemoryConfig::default());
        assert!(sent(&mut near, 64, time).unwrap() > 0.0);
        assert_eq!(far.waiting(), MemoryConfig::default().depth);
        let mut room = RecvBuffer::new();
        let mut far = far;
        let meta = far.recv_single(&mut room).unwrap().unwrap();
        assert_eq!(room.frame(meta.len), frame(64));
    }
}
