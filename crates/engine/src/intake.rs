//! Taking requests out of the channels, no more in a turn than each session and each user
//! may have of it; what is above that waits for the next. Channels whose processes take no
//! answers wait longer (`stalled.rs`).
//!
//! Owns [`Intake`]; the loop calls [`Requests::take_of_all`], and each request is done by
//! [`Stack::handle_request`](longshore_stack::Stack::handle_request).

mod stalled;

use crate::privilege::may_bind;
use crate::programs::Programs;
use crate::session::SHORTEST_STALL;
use crate::time::Clock;
use longshore_hostif::adapter::{Delays, Due, Immediate, Next};
use longshore_hostif::{Address, RING, Request, SocketId};
use longshore_stack::{From, Of, Stack};
use longshore_tcp::Instant;
use stalled::Stalled;

/// Requests taken from one channel in one turn, so that a busy process does not
/// keep packets and timers waiting.
const BATCH: u32 = 256;

/// Requests taken from one session in one turn; those of one user have a share, too
/// (`stack::turns`).
const BATCH_OF_A_SESSION: u32 = 1024;

/// How long one session may be served in one turn, and how long all may be, in microseconds:
/// some requests take long, as those for a port where hardly any is free.
pub(crate) const SHARE: u64 = 250;
const ALL_SHARES: u64 = 1_000;

/// How long requests may wait whose program is at work on more, in microseconds: it says when
/// it is done, or goes on without a word to the engine.
const LONGEST_DELAY: u64 = 50;

/// How long those may wait that their program holds back itself (TCP_CORK, MSG_MORE), in
/// microseconds: so long that a program which goes on is not overtaken, and short beside the
/// 200 ms for which TCP_CORK holds what is less than a segment.
const LONGEST_HELD_BACK: u64 = 2_000;

/// Which requests are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// Those that are due.
    Due,
    /// Those too that are to be taken before frames.
    BeforeFrames,
    /// All that were published.
    All,
}

/// Whose requests are taken, how many of them, and when.
#[derive(Debug)]
pub(crate) struct Intake {
    /// What the session that is being served may still have of this turn.
    share: Share,
    /// A request of this turn may have taken long.
    slow_request: bool,
    /// Some are soon due, for which the engine stays awake.
    pub(crate) are_soon_due: bool,
    /// When those are due that are held back.
    pub(crate) held_back_until: Instant,
    /// They are due now: the processor is wanted by others.
    pub(crate) is_in_hurry: bool,
    /// Which of the sessions that are polled is served first.
    first_session: usize,
    /// The channel that was served last.
    pub(crate) last_served: Option<From>,
    /// Channels whose processes take no answers.
    pub(crate) stalled: Stalled,
}

impl Default for Intake {
    fn default() -> Self {
        Self {
            share: Share::default(),
            slow_request: false,
            are_soon_due: false,
            held_back_until: Instant::NEVER,
            is_in_hurry: false,
            first_session: 0,
            last_served: None,
            stalled: Stalled::new(),
        }
    }
}

/// What a session may still have of this turn.
#[derive(Debug, Default)]
struct Share {
    /// Requests.
    left: u32,
    /// When its time is over, once a request was served that may take long.
    until: Option<Instant>,
    /// A session of this turn had its user had all that it may.
    is_denied: bool,
}

impl Share {
    fn is_spent(&self) -> bool {
        self.left == 0
    }
}

impl Intake {
    /// Requests are about to be taken: what was known of when they are due is known anew.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.are_soon_due = false;
        self.held_back_until = Instant::NEVER;
    }
}

/// Takes requests from the channels of programs, and has them done.
pub(crate) struct Requests<'a> {
    pub(crate) intake: &'a mut Intake,
    pub(crate) stack: &'a mut Stack,
    pub(crate) programs: &'a mut Programs,
    pub(crate) clock: Clock,
}

impl Requests<'_> {
    /// Takes all requests that were published, due or not; says whether there were any.
    pub(crate) fn take_all(&mut self) -> bool {
        self.intake.begin();
        self.stack.endpoints.sessions.have_requests() && self.take_of_all(Which::All)
    }

    /// Whether requests of a session are to be taken now.
    fn are_due(&mut self, session: u32, which: Which) -> bool {
        let now = self.stack.now().0;
        let Some(host) = self.stack.endpoints.sessions.host_unshown_mut(session) else {
            return false;
        };
        if !host.pending.has_any() {
            return false;
        }
        let soon = if self.intake.is_in_hurry {
            0
        } else {
            LONGEST_DELAY
        };
        let held_back = LONGEST_HELD_BACK;
        let due = host.requests_due(now, Delays { soon, held_back });
        match due {
            Due::Soon => self.intake.are_soon_due = true,
            Due::At(until) => {
                let until = Instant(until).min(self.intake.held_back_until);
                self.intake.held_back_until = until;
            }
            Due::Now | Due::Never => {}
        }
        match which {
            Which::Due => due == Due::Now,
            Which::BeforeFrames => due == Due::Now || host.pending.has_any_before_frames(),
            Which::All => true,
        }
    }

    /// Takes `which` requests from all sessions that are polled whose processes have published
    /// some; says whether there were any.
    pub(crate) fn take_of_all(&mut self, which: Which) -> bool {
        let mut any = false;
        let end = self.stack.endpoints.sessions.polled().len();
        let first = if self.intake.first_session < end {
            self.intake.first_session
        } else {
            0
        };
        self.intake.share.is_denied = false;
        let mut denied = None;
        for place in (first..end).chain(0..first) {
            let Some(session) = self.stack.endpoints.sessions.polled().get(place).copied() else {
                break;
            };
            any |= self.are_due(session, which) && self.take_in(session);
            if self.intake.share.is_denied {
                denied.get_or_insert(place);
            }
            if self.intake.slow_request && self.clock.now().since(self.stack.now()) >= ALL_SHARES {
                // Those after this one begin the next turn.
                self.intake.first_session = place + 1;
                self.stack.counters.waits.requests += 1;
                break;
            }
        }
        // Whose user had no more of this turn comes first in the next.
        if let Some(denied) = denied {
            self.intake.first_session = denied;
        }
        self.intake.slow_request = false;
        self.intake.is_in_hurry = false;
        any
    }

    /// Takes requests from one session, if its processes have published some.
    pub(crate) fn take_in(&mut self, session: u32) -> bool {
        let Some(s) = self.stack.endpoints.sessions.get(session) else {
            return false;
        };
        if !s.host.pending.has_any() {
            return false;
        }
        let user_has = self.requests_left(session);
        if user_has == 0 {
            self.intake.share.is_denied = true;
            self.stack.counters.waits.requests += 1;
            return true;
        }
        let s = self.programs.sessions.get(session);
        let first = s.map_or(0, |s| s.first_channel);
        let (first_word, first_bit) = (usize::from(first) / 64, first % 64);
        if let Some(host) = self.stack.endpoints.sessions.host_unshown_mut(session) {
            host.pending.begin();
        }
        self.intake.share.left = BATCH_OF_A_SESSION.min(user_has);
        self.intake.share.until = None;
        let before = self.intake.share.left;
        let half = self.stack.endpoints.sessions.get(session);
        let mut flagged = half.map_or(0, |s| s.host.pending.flagged_words());
        // Of the first word, what comes before the first channel, which is last of all.
        let mut last = 0;
        while flagged != 0 && !self.intake.share.is_spent() {
            let ahead = flagged >> first_word << first_word;
            let i = if ahead != 0 { ahead } else { flagged }.trailing_zeros() as usize;
            flagged &= !(1 << i);
            let s = self.stack.endpoints.sessions.get(session);
            let Some(mut word) = s.map(|s| s.host.pending.take_flags(i)) else {
                break;
            };
            if i == first_word {
                last = word & !(u64::MAX << first_bit);
                word ^= last;
            }
            self.take_from_word(session, i, word, flagged != 0 || last != 0);
        }
        if first != 0 {
            self.take_passed_over(session, first_word, last);
        }
        self.spend_requests(session, before - self.intake.share.left);
        self.intake.share.left != before
    }

    /// Takes requests from these channels of 64, until the session has had its share; says whether
    /// `others` than these wait, too.
    #[inline]
    fn take_from_word(&mut self, session: u32, i: usize, mut word: u64, others: bool) {
        while word != 0 {
            let channel = (i * 64) as u16 + word.trailing_zeros() as u16;
            word &= word - 1;
            self.take_from(From { session, channel });
            if self.intake.share.is_spent() {
                return self.end_share(From { session, channel }, (i, word), others);
            }
        }
    }

    /// The turn did not begin with the first channel: takes requests from those before, if the session
    /// has some of its share left. If it still has then, the next turn does begin with it.
    #[cold]
    fn take_passed_over(&mut self, session: u32, i: usize, word: u64) {
        if !self.intake.share.is_spent() {
            self.take_from_word(session, i, word, false);
            if !self.intake.share.is_spent()
                && let Some(s) = self.programs.sessions.get_mut(session)
            {
                s.first_channel = 0;
            }
        } else if word != 0
            && let Some(half) = self.stack.endpoints.sessions.get_mut(session)
        {
            half.host.pending.flag_again(i, word);
        }
    }

    /// A session has had its share with this channel. Those that are left of its word, or `others`,
    /// are looked at in the next turn, which begins with the one after.
    #[cold]
    fn end_share(&mut self, served: From, (i, left): (usize, u64), others: bool) {
        self.stack.counters.waits.requests += 1;
        if !others && left == 0 {
            return;
        }
        if let Some((s, half)) = self.programs.pair_mut(self.stack, served.session) {
            half.host.pending.flag_again(i, left);
            s.first_channel = (served.channel + 1) % s.processes.channels() as u16;
        }
    }

    /// How many requests the user of a session may still have served in this turn.
    fn requests_left(&self, session: u32) -> u32 {
        let account = self.stack.endpoints.sessions.account_of(session);
        account.map_or(u32::MAX, |account| {
            let turn = self.stack.counters.event_loop.turns;
            account.spent.left(Of::Requests, turn)
        })
    }

    fn spend_requests(&self, session: u32, n: u32) {
        if let Some(account) = self.stack.endpoints.sessions.account_of(session) {
            let turn = self.stack.counters.event_loop.turns;
            account.spent.spend(Of::Requests, turn, n);
        }
    }

    /// A request that may have taken long was served: the session's share of the turn is
    /// over when it did, or when several have.
    #[cold]
    fn spend_time(&mut self) {
        let now = self.clock.now();
        self.intake.slow_request = true;
        let until = *self
            .intake
            .share
            .until
            .get_or_insert(Instant(now.0 + SHARE));
        if now >= until || now.since(self.stack.now()) >= ALL_SHARES {
            self.intake.share.left = 0;
        }
    }

    /// Takes requests of one channel of a session.
    pub(crate) fn take_of(&mut self, session: u32, channel: u32) {
        if let Some(s) = self.programs.sessions.get(session)
            && (channel as usize) < s.processes.channels()
        {
            let channel = channel as u16;
            self.intake.share.left = BATCH + 1;
            self.intake.share.until = None;
            self.take_from(From { session, channel });
        }
    }

    fn take_from(&mut self, from: From) {
        if let Some((s, half)) = self.programs.pair_mut(self.stack, from.session)
            && !half.host.channels.is_open(from.channel)
        {
            let is_taken = s.take_claimed(half, from.channel);
            let has_reservation = s.processes.has_new_reservation();
            // The kernel was asked for the process that claims it, and takes its time.
            self.spend_time();
            if !is_taken {
                if has_reservation {
                    self.programs.schedule.soon(self.stack.now());
                }
                return;
            }
            let now = self.stack.now();
            self.programs.watch(from.session, from.channel, now);
        }
        self.intake.last_served = Some(from);
        self.stack.report_rest(from);
        // An answer must find room: otherwise the rest waits until the process has
        // taken what it has.
        self.take_some(from, BATCH, Some(8));
    }

    /// Takes all that a process published before it died or became another program,
    /// however much that is and however long it takes; says how many requests. Answers that find no
    /// room have nobody to read them.
    pub(crate) fn take_last(&mut self, session: u32, channel: u16) -> u32 {
        // One descriptor may say two things of its socket.
        let all = 2 * RING as u32;
        let from = From { session, channel };
        let taken = self.take_some(from, all, None);
        self.stack.forget_unanswered(from);
        taken
    }

    /// Takes at most `most` requests of one channel, while there is room for `room` completions and
    /// the session has some of its share left; says how many. Where nobody reads completions any
    /// more, the requests are the last ones, and are of no share.
    fn take_some(&mut self, from: From, most: u32, room: Option<u32>) -> u32 {
        let mut taken = 0;
        while let Some(s) = self.stack.endpoints.sessions.get_mut(from.session) {
            let has_share = room.is_none() || !self.intake.share.is_spent();
            if taken == most || !has_share {
                s.host.pending.flag_channel(from.channel);
                break;
            }
            let next = match room {
                Some(room) => s.host.next_request(from.channel, room),
                None => s.host.last_request(from.channel),
            };
            let (message, immediate) = match next {
                Next::Request(message, immediate) => (message, immediate),
                Next::Nothing => break,
                Next::NoRoom => {
                    self.stall(from);
                    break;
                }
                Next::Broken => {
                    self.stack.counters.sessions.broken_channels += 1;
                    break;
                }
            };
            taken += 1;
            self.intake.share.left = self.intake.share.left.saturating_sub(1);
            match Request::decode(&message) {
                Ok(request) => self.do_request(from, &request, &immediate),
                Err(_) => self.stack.endpoints.sessions.count_bad(from.session),
            }
        }
        if taken != 0
            && let Some(s) = self.stack.endpoints.sessions.get_mut(from.session)
        {
            s.host.channels.note_taken(from.channel);
            if let Some(s) = self.programs.sessions.get_mut(from.session) {
                s.stalled_for = SHORTEST_STALL;
            }
        }
        taken
    }

    /// Has the stack do what a process asks, and does what is not the stack's: who may bind
    /// which port, sockets that are on their way to another process, and the time of those
    /// requests that may cost far more than others, as looking for a free port where hardly
    /// any is.
    #[inline]
    fn do_request(&mut self, from: From, request: &Request, immediate: &Immediate) {
        match *request {
            Request::Bind { local, .. } if !self.may_bind(from, local) => {
                self.stack.endpoints.sessions.refuse_bind(from, request);
            }
            _ => self.stack.handle_request(from, request, immediate),
        }
        match *request {
            Request::Unsubscribe { socket } => self.note_transit(from.session, socket),
            Request::Bind { .. }
            | Request::Listen { .. }
            | Request::Connect { .. }
            | Request::Close { .. }
            | Request::Group { .. }
            | Request::Sources { .. } => self.spend_time(),
            _ => {}
        }
    }

    fn may_bind(&mut self, from: From, local: Address) -> bool {
        let session = self.programs.sessions.get_mut(from.session);
        let (now, turn) = (self.stack.now(), self.stack.counters.event_loop.turns);
        may_bind(
            session,
            (from.channel, turn),
            local,
            (&mut self.stack.settings, now),
        )
    }

    /// A process has let go of a socket, which may be on its way to another one.
    #[cold]
    fn note_transit(&mut self, session: u32, socket: SocketId) {
        let now = self.stack.now();
        if let Some(key) = self.stack.endpoints.key_of(session, socket)
            && let Some(s) = self.programs.sessions.get_mut(session)
        {
            s.note_transit(key, socket.index, now);
        }
    }
}

#[cfg(test)]
mod tests;
