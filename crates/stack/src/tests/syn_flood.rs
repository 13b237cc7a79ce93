//! Floods that the engine cannot read: what of them it has its port drop.

use super::filtering::Filtering;
use super::off_path::GEOMETRY;
use super::single::Single;
use longshore_hostif::Features;
use longshore_ports::memory::{MemoryConfig, pair};
use longshore_wire::SeqNumber;
use longshore_wire::tcp::TcpFlags;

/// Looks at a port that always has more, after which the engine is behind.
const LOOKS: u16 = 10;
const FRAMES: u16 = 20;

/// Of SYNs that are more than can be read, the port lets a part through; other segments that belong to no
/// connection are none, whatever they are.
#[test]
fn a_port_is_told_to_drop_what_is_a_syn() {
    let (syn, ack) = (TcpFlags::SYN, TcpFlags::ACK);
    for (flags, are_dropped) in [
        (syn, true),
        (syn | TcpFlags::ECE | TcpFlags::CWR, true),
        (ack, false),
        (syn | ack, false),
        (TcpFlags::RST, false),
        (TcpFlags::FIN, false),
    ] {
        let (port, wire) = pair(&MemoryConfig {
            ethernet: false,
            offloads: false,
            ..MemoryConfig::default()
        });
        let (port, filter) = Filtering::new(port);
        let ends = (Box::new(port) as _, wire);
        let none = Features::empty();
        let mut single = Single::over(ends, &["10.0.0.1/24"], false, GEOMETRY, 1, none);
        single.listen();
        single.turn();
        for number in 0..LOOKS * FRAMES {
            single.bring(number, flags, SeqNumber(0));
            if number % FRAMES == FRAMES - 1 {
                single.stack.looked_at_port(FRAMES.into(), true);
                single.turn();
            }
        }
        let part = filter.syns();
        assert_eq!(part.is_some_and(|part| part > 0), are_dropped, "{flags:?}");
    }
}
