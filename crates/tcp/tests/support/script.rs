//! A peer played by the test: segments are written by stream position, and what the
//! machine says is read the same way. Used by `tests/behaviour` and by the crate's own
//! tests.
//!
//! Positions are relative: 0 is the first byte of either stream, -1 its SYN.

use longshore_tcp::{
    Config, Disposition, Events, Instant, ReceiveLimits, Segment, State, Tcb, Transmit,
};
use longshore_wire::SeqNumber;
use longshore_wire::tcp::{TcpFlags, TcpHeader, TcpOptions, Timestamps};

pub(crate) const FIN: TcpFlags = TcpFlags::FIN;
pub(crate) const SYN: TcpFlags = TcpFlags::SYN;
pub(crate) const RST: TcpFlags = TcpFlags::RST;
pub(crate) const PSH: TcpFlags = TcpFlags::PSH;
pub(crate) const ACK: TcpFlags = TcpFlags::ACK;

/// Our initial sequence number, close to the wrap.
pub(crate) const ISS: u32 = u32::MAX - 500;
/// The peer's.
pub(crate) const IRS: u32 = 7_000;
/// The MSS of both sides.
pub(crate) const MSS: u16 = 1000;
/// The window that the peer offers unless a test says otherwise.
pub(crate) const WINDOW: u16 = 30_000;

/// Neither options nor delays that would get in the way of a table.
pub(crate) fn plain() -> Config {
    Config {
        window_scaling: false,
        timestamps: false,
        sack: false,
        rcv: ReceiveLimits::new(20_000, 20_000),
        ..Config::default()
    }
}

/// A machine and its peer.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    pub(crate) tcb: Tcb,
    pub(crate) now: Instant,
    /// The peer's window field.
    pub(crate) window: u16,
    /// The peer's timestamp clock and what it echoes, if it sends timestamps.
    pub(crate) timestamps: Option<Timestamps>,
    pub(crate) max_payload: usize,
}

impl Script {
    fn new(tcb: Tcb) -> Script {
        Script {
            tcb,
            now: Instant(10_000_000),
            window: WINDOW,
            timestamps: None,
            max_payload: usize::from(MSS),
        }
    }

    /// SYN-SENT, the SYN not yet fetched.
    pub(crate) fn connecting(cfg: &Config) -> Script {
        let now = Instant(10_000_000);
        Script::new(Tcb::connect(cfg, MSS, SeqNumber(ISS), 0, now))
    }

    /// SYN-RECEIVED by a passive open, the SYN-ACK fetched.
    pub(crate) fn accepting(cfg: &Config, options: TcpOptions) -> Script {
        let header = TcpHeader {
            src_port: 1,
            dst_port: 2,
            seq: SeqNumber(IRS),
            ack: SeqNumber(0),
            flags: SYN,
            window: WINDOW,
            urgent: 0,
            options,
        };
        let now = Instant(10_000_000);
        let syn = Segment::new(&header, 0);
        let mut script = Script::new(Tcb::accept(cfg, &syn, MSS, SeqNumber(ISS), 0, now));
        script.timestamps = options.timestamps;
        assert_eq!(script.sent().len(), 1);
        script
    }

    /// ESTABLISHED by an active open, with what the options agree on.
    pub(crate) fn established_with(cfg: &Config, options: TcpOptions) -> Script {
        let mut script = Script::connecting(cfg);
        assert_eq!(script.sent().len(), 1);
        script.timestamps = options.timestamps;
        let syn_ack = TcpOptions {
            mss: Some(MSS),
            ..options
        };
        let _ = script.arrives_with(SYN | ACK, -1, 0, 0, syn_ack);
        assert_eq!(script.tcb.state(), State::Established);
        script.sent();
        script.tcb.take_events();
        script
    }

    /// ESTABLISHED without options, quick acknowledgments used up.
    pub(crate) fn established() -> Script {
        let mut script = Script::established_with(&plain(), TcpOptions::default());
        script.tcb.settings().set_quickack(false);
        script
    }

    /// Brought into `state`: each side has sent nothing but SYN and FIN.
    pub(crate) fn in_state(state: State) -> Script {
        if state == State::SynSent {
            let mut script = Script::connecting(&plain());
            script.sent();
            return script;
        }
        if state == State::SynReceived {
            return Script::accepting(&plain(), TcpOptions::default());
        }
        let mut s = Script::established();
        match state {
            State::Established => {}
            State::FinWait1 => s.shut(),
            State::FinWait2 => {
                s.shut();
                let _ = s.arrives(ACK, 0, 1, 0);
            }
            State::CloseWait => {
                let _ = s.arrives(FIN | ACK, 0, 0, 0);
                s.sent();
            }
            State::Closing => {
                s.shut();
                let _ = s.arrives(FIN | ACK, 0, 0, 0);
                s.sent();
            }
            State::LastAck => {
                let _ = s.arrives(FIN | ACK, 0, 0, 0);
                s.sent();
                s.shut();
            }
            State::TimeWait => {
                s.shut();
                let _ = s.arrives(FIN | ACK, 0, 1, 0);
                s.sent();
            }
            State::Closed => {
                let _ = s.arrives(RST, 0, 0, 0);
            }
            State::SynSent | State::SynReceived => unreachable!(),
        }
        assert_eq!(s.tcb.state(), state);
        s.tcb.take_events();
        // Let the rate limit of challenge ACKs pass.
        s.now = s.now.after_ms(600);
        s
    }

    fn shut(&mut self) {
        self.tcb.shutdown_send();
        let sent = self.sent();
        assert!(sent[0].flags.contains(FIN));
    }

    /// A segment arrives.
    pub(crate) fn arrives(&mut self, flags: TcpFlags, seq: i64, ack: i64, len: u32) -> Disposition {
        self.arrives_with(flags, seq, ack, len, TcpOptions::default())
    }

    /// A segment with options arrives; timestamps are added if the peer sends them.
    pub(crate) fn arrives_with(
        &mut self,
        flags: TcpFlags,
        seq: i64,
        ack: i64,
        len: u32,
        options: TcpOptions,
    ) -> Disposition {
        let header = self.header(flags, seq, ack, options);
        self.tcb.on_segment(&Segment::new(&header, len), self.now)
    }

    /// A segment with an urgent pointer arrives.
    pub(crate) fn arrives_urgent(
        &mut self,
        flags: TcpFlags,
        (seq, ack): (i64, i64),
        len: u32,
        pointer: u16,
    ) -> Disposition {
        let header = TcpHeader {
            urgent: pointer,
            ..self.header(flags | TcpFlags::URG, seq, ack, TcpOptions::default())
        };
        self.tcb.on_segment(&Segment::new(&header, len), self.now)
    }

    pub(crate) fn header(
        &self,
        flags: TcpFlags,
        seq: i64,
        ack: i64,
        options: TcpOptions,
    ) -> TcpHeader {
        TcpHeader {
            src_port: 1,
            dst_port: 2,
            seq: SeqNumber(IRS.wrapping_add(1).wrapping_add(seq as u32)),
            ack: SeqNumber(ISS.wrapping_add(1).wrapping_add(ack as u32)),
            flags,
            window: self.window,
            urgent: 0,
            options: TcpOptions {
                timestamps: options.timestamps.or(self.timestamps),
                ..options
            },
        }
    }

    /// Everything that the machine has to send.
    pub(crate) fn sent(&mut self) -> Vec<Transmit> {
        let mut all = Vec::new();
        while let Some(t) = self.tcb.poll_transmit(self.now, self.max_payload) {
            assert!(all.len() < 1000, "sends without end");
            all.push(t);
        }
        all
    }

    /// The one segment that the machine has to send.
    pub(crate) fn sent_one(&mut self) -> Transmit {
        let mut all = self.sent();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    /// Nothing is sent.
    pub(crate) fn silent(&mut self) {
        let all = self.sent();
        assert!(all.is_empty(), "{all:?}");
    }

    /// One bare acknowledgment of `ack` is sent.
    pub(crate) fn acks(&mut self, ack: i64) {
        let t = self.sent_one();
        assert_eq!(t.flags, ACK, "{t:?}");
        assert!(t.payload.is_empty());
        assert_eq!(self.ack_of(&t), ack);
    }

    /// What a segment of the machine acknowledges, as a position.
    pub(crate) fn ack_of(&self, t: &Transmit) -> i64 {
        i64::from(t.ack.0.wrapping_sub(IRS.wrapping_add(1)) as i32)
    }

    /// Where a segment of the machine begins, as a position.
    pub(crate) fn seq_of(&self, t: &Transmit) -> i64 {
        i64::from(t.seq.0.wrapping_sub(ISS.wrapping_add(1)) as i32)
    }

    /// The user writes up to `edge`.
    pub(crate) fn writes(&mut self, edge: u64) {
        self.tcb.set_snd_edge(edge, true);
    }

    /// Time passes until the next deadline, which is acted upon. Says how long that
    /// took, in microseconds.
    pub(crate) fn until_timer(&mut self) -> u64 {
        let deadline = self.tcb.deadline().expect("no timer runs");
        let waited = deadline.since(self.now);
        self.now = self.now.max(deadline);
        self.tcb.on_timer(self.now);
        waited
    }

    /// Time passes.
    pub(crate) fn waits_ms(&mut self, ms: u64) {
        let end = self.now.after_ms(ms);
        while let Some(deadline) = self.tcb.deadline().filter(|d| *d <= end) {
            self.now = self.now.max(deadline);
            self.tcb.on_timer(self.now);
        }
        self.now = end;
    }

    pub(crate) fn events(&mut self) -> Events {
        self.tcb.take_events()
    }
}
