//! A connection between a peer that sends what it likes and a program that calls what
//! it likes, in any order: nothing may panic, and what the machine says of itself must
//! hold after each step.
#![no_main]

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use longshore_tcp::{
    Config, Congestion, DelayConfig, Ecn, EcnMode, Events, IcmpError, Instant, ReceiveLimits,
    SavedTcb, Segment, State, Tcb, Transmit, reset_for,
};
use longshore_wire::SeqNumber;
use longshore_wire::tcp::{SackBlocks, TcpFlags, TcpHeader, TcpOptions, Timestamps};

const MSS: u16 = 1460;
/// Segments that one step may send: a window of 16 MiB in the smallest of segments.
const MANY: usize = 400_000;

#[derive(Debug, Arbitrary)]
struct Input {
    iss: u32,
    irs: u32,
    passive: bool,
    syn_options: Options,
    configuration: u16,
    congestion: u8,
    rcvbuf: u16,
    steps: Vec<Step>,
}

#[derive(Debug, Arbitrary)]
enum Step {
    Arrives(Arriving),
    /// The peer acknowledges everything that was sent, and sends so much in order.
    Answers {
        len: u16,
        fin: bool,
        window: u16,
    },
    Sends {
        most: u16,
    },
    Passes {
        millis: u16,
    },
    Expires,
    Write {
        bytes: u16,
        push: bool,
    },
    Read {
        bytes: u16,
    },
    ShutdownSend,
    ShutdownRecv,
    Close,
    Abort,
    Icmp {
        far: i8,
        kind: u8,
    },
    PathMss(u16),
    Option {
        which: u8,
        value: u16,
    },
    /// The connection moves to another process.
    Moves,
}

/// A segment, in terms of where the connection stands.
#[derive(Debug, Arbitrary)]
struct Arriving {
    flags: u16,
    /// From RCV.NXT; the second counts in steps of 1000.
    seq: (i8, i8),
    /// From the last byte sent.
    ack: (i8, i8),
    len: u16,
    window: u16,
    urgent: u16,
    merged: bool,
    ecn: u8,
    options: Options,
}

#[derive(Debug, Arbitrary)]
struct Options {
    mss: Option<u16>,
    window_scale: Option<u8>,
    sack_permitted: bool,
    timestamps: Option<(i16, i16)>,
    sack: [Option<(i16, i16)>; 3],
    user_timeout: Option<u16>,
}

/// A connection, and what was true of it before.
struct Run {
    tcb: Tcb,
    now: Instant,
    iss: u32,
    irs: u32,
    snd_acked: u64,
    rcv_edge: u64,
    rcv_limit: u64,
    /// The last value of our clock and the one of the peer's.
    clocks: (u32, u32),
}

fuzz_target!(|input: Input| {
    let mut run = Run::new(&input);
    for step in &input.steps {
        run.step(step);
        run.check();
    }
    run.end();
});

impl Run {
    fn new(input: &Input) -> Run {
        let bit = |n: u16| input.configuration >> n & 1 == 1;
        let rcvbuf = u32::from(input.rcvbuf) * 16;
        let config = Config {
            window_scaling: bit(0),
            timestamps: bit(1),
            sack: bit(2),
            delay: DelayConfig {
                nodelay: bit(3),
                cork: bit(4),
                quickack: bit(5),
            },
            rcv: ReceiveLimits::new(rcvbuf, if bit(6) { rcvbuf } else { 4 << 20 }),
            user_timeout_ms: if bit(7) { 3_000 } else { 0 },
            user_timeout_option: bit(10),
            congestion: Congestion::ALL[usize::from(input.congestion) % Congestion::ALL.len()],
            ecn: match input.configuration >> 8 & 3 {
                0 => EcnMode::Accept,
                1 => EcnMode::Request,
                2 => EcnMode::RequestAccurate,
                _ => EcnMode::AcceptAccurate,
            },
            ..Config::default()
        };
        let now = Instant(1_000_000);
        let mut run = Run {
            tcb: Tcb::connect(&config, MSS, SeqNumber(input.iss), 7, now),
            now,
            iss: input.iss,
            irs: input.irs,
            snd_acked: 0,
            rcv_edge: 0,
            rcv_limit: 0,
            clocks: (0, 1_000),
        };
        let mut header = run.header(TcpFlags::SYN, 0, 0, &input.syn_options);
        header.seq = SeqNumber(input.irs);
        if input.passive {
            let segment = Segment::new(&header, 0);
            run.tcb = Tcb::accept(&config, &segment, MSS, SeqNumber(input.iss), 7, now);
            run.sends(65_535);
        } else {
            run.sends(65_535);
            header.flags |= TcpFlags::ACK;
            header.ack = SeqNumber(input.iss.wrapping_add(1));
            run.arrives(&header, 0, 0, Ecn::NotCapable);
        }
        run
    }

    fn step(&mut self, step: &Step) {
        let now = self.now;
        match *step {
            Step::Arrives(ref arriving) => self.arriving(arriving),
            Step::Answers { len, fin, window } => {
                let mut flags = TcpFlags::ACK;
                if fin {
                    flags |= TcpFlags::FIN;
                }
                let none = Options {
                    mss: None,
                    window_scale: None,
                    sack_permitted: false,
                    timestamps: Some((1, 0)),
                    sack: [None; 3],
                    user_timeout: None,
                };
                let mut header = self.header(flags, 0, 0, &none);
                header.window = window;
                self.arrives(&header, u32::from(len), 0, Ecn::NotCapable);
            }
            Step::Sends { most } => self.sends(usize::from(most)),
            Step::Passes { millis } => self.passes(now.after_ms(u64::from(millis))),
            Step::Expires => {
                if let Some(deadline) = self.tcb.deadline() {
                    self.passes(deadline.max(now));
                }
            }
            Step::Write { bytes, push } => {
                let edge = self.tcb.snd_edge() + u64::from(bytes);
                self.tcb.set_snd_edge(edge, push);
            }
            Step::Read { bytes } => {
                let edge = self.tcb.rcv_consumed() + u64::from(bytes);
                self.tcb.set_rcv_consumed(edge, now);
            }
            Step::ShutdownSend => self.tcb.shutdown_send(),
            Step::ShutdownRecv => self.tcb.closing().shutdown_recv(),
            Step::Close => self.tcb.close(now),
            Step::Abort => self.tcb.abort(),
            Step::Icmp { far, kind } => {
                let kind = match kind % 3 {
                    0 => IcmpError::NetUnreachable,
                    1 => IcmpError::HostUnreachable,
                    _ => IcmpError::ProtocolUnreachable,
                };
                let seq = self.our_number(self.tcb.snd_acked(), i64::from(far));
                self.tcb.on_icmp(kind, seq);
            }
            Step::PathMss(mss) => self.tcb.segment_size().set_path_mss(mss),
            Step::Option { which, value } => self.option(which, value),
            Step::Moves => {
                let restored = SavedTcb::of(&self.tcb).restore(now);
                self.tcb = restored.expect("what was saved is a connection");
            }
        }
    }

    fn option(&mut self, which: u8, value: u16) {
        let on = value & 1 == 1;
        match which % 7 {
            0 => self.tcb.settings().set_nodelay(on),
            1 => self.tcb.settings().set_cork(on),
            2 => self.tcb.settings().set_quickack(on),
            3 => self.tcb.settings().set_user_timeout(u32::from(value)),
            4 => self.tcb.settings().set_rcvbuf(u32::from(value)),
            5 => self.tcb.settings().set_window_clamp(u32::from(value)),
            _ => self.tcb.segment_size().set_max_segment(value),
        }
    }

    fn our_number(&self, position: u64, from_it: i64) -> SeqNumber {
        let position = position as i64 + from_it;
        SeqNumber(self.iss.wrapping_add(1).wrapping_add(position as u32))
    }

    fn peer_number(&self, position: u64, from_it: i64) -> SeqNumber {
        let position = position as i64 + from_it;
        SeqNumber(self.irs.wrapping_add(1).wrapping_add(position as u32))
    }

    fn header(&self, flags: TcpFlags, seq: i64, ack: i64, options: &Options) -> TcpHeader {
        let mut sack = SackBlocks::EMPTY;
        for (left, len) in options.sack.iter().flatten() {
            let left = i64::from(*left);
            let at = self.tcb.snd_acked();
            sack.push(
                self.our_number(at, left),
                self.our_number(at, left + i64::from(*len)),
            );
        }
        let (ours, theirs) = self.clocks;
        TcpHeader {
            src_port: 1,
            dst_port: 2,
            seq: self.peer_number(
                self.tcb.rcv_edge() + u64::from(self.tcb.receive_status().is_closed()),
                seq,
            ),
            ack: self.our_number(self.tcb.send_status().sent(), ack),
            flags,
            window: 30_000,
            urgent: 0,
            options: TcpOptions {
                mss: options.mss,
                window_scale: options.window_scale,
                sack_permitted: options.sack_permitted,
                timestamps: options.timestamps.map(|(val, echo)| Timestamps {
                    val: theirs.wrapping_add(val as u32),
                    echo: ours.wrapping_add(echo as u32),
                }),
                sack,
                user_timeout: options.user_timeout,
                ..TcpOptions::default()
            },
        }
    }

    fn arriving(&mut self, a: &Arriving) {
        let far = |(near, far): (i8, i8)| i64::from(near) + i64::from(far) * 1000;
        let mut header = self.header(
            TcpFlags(a.flags & 0x1ff),
            far(a.seq),
            far(a.ack),
            &a.options,
        );
        header.window = a.window;
        header.urgent = a.urgent;
        let ecn = match a.ecn % 4 {
            0 => Ecn::NotCapable,
            1 => Ecn::Capable1,
            2 => Ecn::Capable0,
            _ => Ecn::Congested,
        };
        let gso_size = if a.merged { MSS } else { 0 };
        self.arrives(&header, u32::from(a.len), gso_size, ecn);
    }

    fn arrives(&mut self, header: &TcpHeader, payload_len: u32, gso_size: u16, ecn: Ecn) {
        if let Some(timestamps) = header.options.timestamps {
            self.clocks.1 = timestamps.val;
        }
        let segment = Segment {
            header,
            payload_len,
            gso_size,
            ecn,
        };
        let limit = self.tcb.receive_status().limit();
        let disposition = self.tcb.on_segment(&segment, self.now);
        if let Some(place) = disposition.place {
            assert!(
                place.len > 0 && place.skip + place.len <= payload_len,
                "{place:?}"
            );
            assert!(place.stream_offset >= self.rcv_edge, "{place:?}");
            assert!(place.stream_offset + u64::from(place.len) <= limit.max(self.rcv_limit));
        }
        if disposition.reset {
            assert!(
                reset_for(&segment).is_some(),
                "a reset is answered by a reset"
            );
        }
    }

    fn passes(&mut self, end: Instant) {
        for _ in 0..1_000 {
            match self.tcb.deadline() {
                Some(deadline) if deadline <= end => {
                    self.now = self.now.max(deadline);
                    self.tcb.on_timer(self.now);
                    self.check();
                    self.sends(65_535);
                }
                _ => break,
            }
        }
        self.now = self.now.max(end);
    }

    fn sends(&mut self, most: usize) {
        for count in 0.. {
            assert!(count < MANY, "sends without end");
            let Some(transmit) = self.tcb.poll_transmit(self.now, most.max(1)) else {
                return;
            };
            self.check_transmit(&transmit, most.max(1));
        }
    }

    fn check_transmit(&mut self, t: &Transmit, most: usize) {
        assert!(t.payload.start <= t.payload.end, "{t:?}");
        assert!(t.payload.end <= self.tcb.snd_edge(), "{t:?}");
        assert!(t.payload_len() <= most.max(usize::from(t.mss)), "{t:?}");
        if t.payload_len() > 0 {
            assert!(t.payload.start >= self.tcb.snd_acked(), "{t:?}");
            if !t.flags.contains(TcpFlags::SYN) {
                assert_eq!(t.seq, self.our_number(t.payload.start, 0), "{t:?}");
            }
        }
        assert!(t.header(1, 2).header_len() <= 60, "{t:?}");
        if let Some(timestamps) = t.options.timestamps {
            self.clocks.0 = timestamps.val;
        }
    }

    /// What holds between steps.
    fn check(&mut self) {
        let tcb = &mut self.tcb;
        assert_eq!(tcb.check(), Ok(()));
        let events = tcb.take_events();
        assert!(
            tcb.snd_acked() <= tcb.send_status().sent(),
            "snd_una <= snd_nxt"
        );
        assert!(
            tcb.send_status().sent() <= tcb.snd_edge(),
            "snd_nxt <= what was written"
        );
        assert!(tcb.rcv_consumed() <= tcb.rcv_edge(), "read before it came");
        assert!(
            tcb.snd_acked() >= self.snd_acked,
            "an acknowledgment is taken back"
        );
        assert!(tcb.rcv_edge() >= self.rcv_edge, "data are taken back");
        assert!(
            tcb.receive_status().limit() >= self.rcv_limit,
            "the window is taken back"
        );
        let closed = tcb.state() == State::Closed;
        assert!(
            !closed || tcb.deadline().is_none(),
            "the dead have a deadline"
        );
        assert!(
            !events.contains(Events::CLOSED) || closed,
            "closed, but it lives"
        );
        assert!(!events.contains(Events::ERROR) || tcb.error().is_some());
        assert!(tcb.mss() > 0 && tcb.send_status().cwnd() > 0);
        self.snd_acked = tcb.snd_acked();
        self.rcv_edge = tcb.rcv_edge();
        self.rcv_limit = tcb.receive_status().limit();
        let _ = tcb.info(self.now).to_linux();
    }

    /// Without a peer that answers, a connection that is given up ends.
    fn end(&mut self) {
        self.tcb.settings().set_cork(false);
        self.tcb.close(self.now);
        self.sends(65_535);
        for _ in 0..10_000 {
            let Some(deadline) = self.tcb.deadline() else {
                assert_eq!(self.tcb.state(), State::Closed, "waits for nothing");
                return;
            };
            self.now = self.now.max(deadline);
            self.tcb.on_timer(self.now);
            self.sends(65_535);
            self.check();
        }
        panic!("{:?} does not end", self.tcb.state());
    }
}
