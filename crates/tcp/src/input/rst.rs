//! RST and SYN in a synchronized state, with RFC 5961's protection against blind attacks.
//!
//! `input/mod.rs` calls these.

use super::{Arrival, Step};
use crate::drop::DropReason;
use crate::events::{Error, Events};
use crate::flags::Flags;
use crate::pos::SYN_POS;
use crate::segment::Disposition;
use crate::state::State;
use crate::tcb::Tcb;
use longshore_wire::tcp::TcpFlags;

impl Tcb {
    /// RFC 5961 section 3.2 (RFC 9293 section 3.10.7.4, second): a RST outside the window
    /// is dropped; one exactly at RCV.NXT resets; one elsewhere in the window is
    /// challenged.
    pub(super) fn on_rst(&mut self, a: &Arrival<'_>) -> Disposition {
        let exact = a.start == self.rcv.nxt() || self.rst_has_fin_seq(a);
        let inside = a.start > self.rcv.nxt() && a.start < self.rcv.adv();
        if !exact && !inside {
            return Disposition::dropped(DropReason::RstUnacceptable);
        }
        if !exact {
            self.challenge(a.now);
            return Disposition::dropped(DropReason::RstNotExact);
        }
        let error = match self.state {
            // RFC 9293 section 3.10.7.4: an active open is refused. A passive one is
            // discarded, unless its program already has it (RFC 7413).
            State::SynReceived if self.flags.contains(Flags::ACTIVE) => Some(Error::Refused),
            State::CloseWait => Some(Error::BrokenPipe),
            // Both sides have closed: no data is lost.
            State::Closing | State::LastAck => None,
            _ => Some(Error::Reset),
        };
        self.die(error, Events::RESET);
        Disposition::default()
    }

    /// Some systems that close and then reset give the reset the sequence number of their
    /// FIN. Like Linux we accept it: it is as hard to guess as RCV.NXT.
    fn rst_has_fin_seq(&self, a: &Arrival<'_>) -> bool {
        let has_closed = matches!(
            self.state,
            State::CloseWait | State::Closing | State::LastAck
        );
        has_closed && a.start == self.rcv.fin()
    }

    /// RFC 5961 section 4.2: a SYN in a synchronized state is challenged, whatever its
    /// sequence number.
    pub(super) fn check_syn(&mut self, a: &Arrival<'_>) -> Step {
        if !a.has(TcpFlags::SYN) {
            return Ok(());
        }
        if self.state == State::SynReceived && a.start == SYN_POS && a.has(TcpFlags::ACK) {
            return Ok(());
        }
        if self.state == State::SynReceived && a.start == SYN_POS {
            // A retransmitted SYN with data (RFC 7413): our SYN-ACK is lost.
            if self.liveness.may_challenge(a.now) {
                self.flags |= Flags::SYN_DUE;
            }
            return Err(Disposition::dropped(DropReason::EarlyData));
        }
        self.challenge(a.now);
        Err(Disposition::dropped(DropReason::SynInConnection))
    }
}
