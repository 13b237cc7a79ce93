//! A whole stack with a program, and a wire on which anything may come, in virtual time: no
//! frame, whatever its layers, may make it panic, and what it sends has lengths and checksums
//! that hold and comes from an address of its own. After each turn its parts agree with each
//! other (`Stack::check`), and at the end of each input, when all connections are aborted and
//! time has passed, nothing is left of it. The wire is bare IP or Ethernet.
#![no_main]

#[path = "stack/far.rs"]
mod far;
#[path = "stack/near.rs"]
mod near;
#[path = "stack/program.rs"]
mod program;

use far::Far;
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use near::Near;
use std::cell::RefCell;

/// Frames that an input may call forth: a window for each step, and what is repeated.
const MOST_FRAMES: usize = 100_000;

/// The sender: one of four peers, over IPv6 or not.
#[derive(Debug, Clone, Copy, Arbitrary)]
struct Who {
    number: u8,
    v6: bool,
}

#[derive(Debug, Arbitrary)]
enum Options {
    None,
    /// A clock that may go back, and what the engine said last.
    Timestamps(i16),
    /// Of what the engine has sent: where, and how long.
    Sack([(i16, u8); 3]),
    Bytes(Vec<u8>),
}

/// What a peer sends besides the ports; positions count from what is right.
#[derive(Debug, Arbitrary)]
struct Segment {
    flags: u8,
    seq: i16,
    ack: i16,
    window: u16,
    urgent: u16,
    options: Options,
    len: u16,
    right_sum: bool,
}

/// Above the IP header, which is right but for what is said here.
#[derive(Debug, Arbitrary)]
struct Packet {
    protocol: u8,
    traffic_class: u8,
    /// Flags and offset of IPv4.
    fragment: u16,
    hops: u8,
    /// To all, or to a group.
    to: u8,
    right_sum: bool,
    body: Vec<u8>,
}

#[derive(Debug, Arbitrary)]
enum Step {
    /// A frame, or a packet where there are no frames.
    Bytes(Vec<u8>),
    /// What follows an Ethernet header of this type.
    Frame(u16, bool, Vec<u8>),
    Packet(Who, Packet),
    Segment(Who, Segment),
    /// A whole handshake.
    Connects(Who),
    /// All that has come is acknowledged, and so many bytes follow.
    Answers(Who, u16),
    Datagram(Who, u16),
    Write(u8, u16),
    Read(u8),
    Connect(Who),
    Send(Who, u16),
    Shutdown(u8),
    Close(u8),
    /// So many milliseconds pass.
    Wait(u16),
}

#[derive(Debug, Arbitrary)]
struct Input {
    ethernet: bool,
    steps: Vec<Step>,
}

thread_local! {
    /// The stacks, without frames and with them, which are kept since to make one takes
    /// longer than most inputs, and their peers.
    static WORLDS: RefCell<[Option<(Near, Far)>; 2]> = const { RefCell::new([None, None]) };
}

fuzz_target!(|input: Input| {
    WORLDS.with_borrow_mut(|worlds| {
        let world = &mut worlds[usize::from(input.ethernet)];
        let (near, far) =
            world.get_or_insert_with(|| (Near::new(input.ethernet), Far::new(input.ethernet)));
        run(&input, near, far);
    });
});

fn run(input: &Input, near: &mut Near, far: &mut Far) {
    let mut frames = 0;
    for step in &input.steps {
        for frame in sent_by(step, near, far) {
            near.bring(&frame);
            frames += exchange(near, far);
        }
        near.flush();
        frames += exchange(near, far);
        assert!(frames < MOST_FRAMES, "{frames} frames for {step:?}");
    }
    near.end();
}

/// What a step puts on the wire; what it does to the program is done.
fn sent_by(step: &Step, near: &mut Near, far: &mut Far) -> Vec<Vec<u8>> {
    match step {
        Step::Bytes(bytes) => vec![bytes.clone()],
        Step::Frame(kind, to_all, body) => vec![far.frame(*kind, *to_all, body)],
        Step::Packet(who, packet) => vec![far.packet(*who, packet)],
        Step::Segment(who, segment) => vec![far.segment(*who, segment)],
        Step::Connects(who) => {
            near.bring(&far.syn(*who));
            exchange(near, far);
            vec![far.answer(*who, 0)]
        }
        Step::Answers(who, len) => vec![far.answer(*who, *len)],
        Step::Datagram(who, len) => vec![far.datagram(*who, *len)],
        program => {
            near.call(program);
            Vec::new()
        }
    }
}

/// Turns until the stack is silent; how many frames it has sent.
fn exchange(near: &mut Near, far: &mut Far) -> usize {
    let mut frames = 0;
    loop {
        let sent = near.turn();
        if sent.is_empty() {
            return frames;
        }
        frames += sent.len();
        for frame in sent {
            if let Some(answer) = far.receive(&frame) {
                near.bring(&answer);
            }
        }
    }
}
