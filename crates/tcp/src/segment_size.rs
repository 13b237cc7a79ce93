//! The bounds of the size of segments that the path and the user set.
//!
//! Owns [`SegmentSize`], which [`Tcb::segment_size`](crate::Tcb::segment_size) gives; the engine
//! keeps the path MTU and says when it has changed.

use crate::config::Config;
use crate::congestion::CongestionState;
use crate::fast_open::FastOpen;
use crate::flags::Flags;
use crate::flight::Flight;
use crate::prediction::Prediction;
use crate::rcv::ReceiveSide;
use crate::snd::{MIN_MSS, SendSide};
use crate::state::State;

/// The size of segments.
#[derive(Debug)]
pub struct SegmentSize<'t> {
    pub(crate) prediction: &'t mut Prediction,
    pub(crate) state: State,
    pub(crate) cfg: &'t mut Config,
    pub(crate) flags: &'t mut Flags,
    pub(crate) snd: &'t mut SendSide,
    pub(crate) rcv: &'t mut ReceiveSide,
    pub(crate) fast_open: &'t mut FastOpen,
    pub(crate) congestion: &'t mut CongestionState,
    pub(crate) flight: &'t mut Flight,
}

impl SegmentSize<'_> {
    /// The path takes segments of `mss` bytes (its MTU less IP and TCP headers). If that
    /// is less than before, larger segments in flight are retransmitted at once, without
    /// a change of the congestion window (RFC 8899 section 3, RFC 1191 section 6.4).
    pub fn set_path_mss(mut self, mss: u16) {
        self.change_path(mss);
        self.bound_segments();
    }

    /// As [`set_path_mss`](Self::set_path_mss), where routers may cut what is in flight: larger
    /// segments among it are not retransmitted for that.
    pub fn note_path_mss(mut self, mss: u16) {
        self.change_path(mss);
        self.update_mss();
    }

    fn change_path(&mut self, mss: u16) {
        let mss = mss.max(MIN_MSS);
        if mss != self.snd.path_mss() {
            self.snd.set_path_mss(mss);
            self.flight
                .mtu
                .on_advertised(self.snd, self.flight.last_sent);
        }
        if self.state == State::SynSent {
            // The same bound applies to a connection opened after this: a path that does
            // not take a size in one direction seldom takes it in the other.
            self.rcv.bound_mss(mss);
            if self.fast_open.fall_back_on_small_path(mss) {
                *self.flags |= Flags::SYN_DUE;
                self.flight.round_trip.cancel(self.congestion);
            }
        }
    }

    /// TCP_MAXSEG on a connection: bounds the MSS for sending; 0 for no bound.
    pub fn set_max_segment(mut self, mss: u16) {
        self.cfg.mss = mss;
        self.snd.set_bound(mss);
        self.bound_segments();
    }

    /// A bound on the segment size has changed.
    pub(crate) fn bound_segments(&mut self) {
        let old = self.snd.mss();
        self.update_mss();
        if self.snd.mss() < old && self.snd.in_flight() > 0 && self.state.is_synchronized() {
            self.flight.retransmit_for_smaller_mss(self.snd);
            // What is to be retransmitted ends header prediction.
            *self.prediction = Prediction::OFF;
        }
    }

    fn update_mss(&mut self) {
        self.snd.update_mss();
        self.congestion.controller.set_mss(self.snd.mss());
    }
}

#[cfg(test)]
mod tests;
