//! How long a thread looks again before it sleeps.
//!
//! A look costs a system call in which others may have the processor, a sleep costs two and a
//! wake-up, and a processor that has gone to sleep takes far longer to be woken than to look. So
//! a thread looks a dozen times as a rule, and not at all where that has been in vain for a
//! while. What it waits for may come a little later than that each time, because everybody on the
//! way to it sleeps, too: so it is tried now and then whether it comes to one that looks for
//! longer, and done so for as long as it nearly always does.
//!
//! Owns what a thread knows of its own waits ([`Looks`]), and the loop of looks
//! ([`Threads::spin`]), which `wait` and the calls that wait for several sockets go through.

use super::Threads;
use crate::errors::SocketError;
use longshore_ring::{is_confined, section};
use std::cell::Cell;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Times that a thread looks again, giving way in between, before it sleeps.
const SPINS: u32 = 12;
/// And how long at the least while the thread is new: a thread that gives way to no other is
/// through with those in no time, and a processor that has gone to sleep takes as long as this to
/// be woken. A program that makes one request is over sooner for it; one that serves leaves
/// the processor to others.
const AWAKE_FOR: Duration = Duration::from_micros(50);
/// Waits for which a thread is new.
const NEW_FOR: u32 = 16;
/// Sleeps in a row that looking did not prevent, after which it is given up
/// but for one time in as many.
const FAILED_SPINS: u32 = 16;
/// A thread that keeps the processor as long as this when we give way has work of its own: it is
/// better to sleep, since a thread that is woken comes before it, and one that gave way after.
const KEPT: Duration = Duration::from_millis(1);
/// How long a thread looks that does so for longer: several times what it takes to wake a
/// processor that sleeps, as there may be two or three to be woken on the way.
const LONG: Duration = Duration::from_micros(200);
/// And how soon that has to find something, once all on the way look so: a thread that is asked
/// 5,000 times a second would else keep half of a processor for nothing.
const SOON: Duration = Duration::from_micros(150);
/// Waits in which the usual looks found nothing, after which longer ones are tried.
const UNTIL_TRIED: u32 = 32;
/// And after a trial that failed, or longer looks that no longer find enough.
const UNTIL_TRIED_AGAIN: u32 = 1024;
/// Waits in a row in which longer looks have to find something when they are tried.
const TRIALS: u32 = 8;
/// What a longer look counts that finds nothing, or not soon, of what it is given up at; one that
/// does takes one off. So one in five may be in vain.
const VAIN: u32 = 4;
const MOST_VAIN: u32 = 16;

/// The environment variable that sets how often to look before sleeping.
pub const SPIN_VARIABLE: &str = "LONGSHORE_SPIN";

fn spins() -> u32 {
    static CHOSEN: OnceLock<u32> = OnceLock::new();
    *CHOSEN.get_or_init(|| {
        std::env::var(SPIN_VARIABLE)
            .ok()
            .and_then(|v| v.parse().ok())
            .unwrap_or(SPINS)
    })
}

/// What a thread knows of its own waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Looks {
    /// Waits that it has yet to do before it is no longer new.
    new: u32,
    /// Waits in a row in which it looked in vain.
    in_vain: u32,
    longer: Longer,
}

/// Whether a thread looks for longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Longer {
    /// It does not, and so many more waits in vain are left until it is tried.
    No { left: u32 },
    /// It is tried, and so many waits have found something.
    Tried { found: u32 },
    /// It does, and so much was in vain ([`VAIN`]).
    Yes { vain: u32 },
}

impl Longer {
    /// After a wait in which something was found after so long, or the thread had to sleep.
    fn after(self, found: Option<Duration>) -> Self {
        match (self, found) {
            // What the usual looks find needs no longer ones.
            (Self::No { .. }, Some(_)) => self,
            (Self::No { left: 0 }, None) => Self::Tried { found: 0 },
            (Self::No { left }, None) => Self::No { left: left - 1 },
            (Self::Tried { found }, Some(_)) if found + 1 == TRIALS => Self::Yes { vain: 0 },
            (Self::Tried { found }, Some(_)) => Self::Tried { found: found + 1 },
            (Self::Yes { vain }, Some(after)) if after <= SOON => Self::Yes {
                vain: vain.saturating_sub(1),
            },
            (Self::Yes { vain }, _) if vain + VAIN < MOST_VAIN => Self::Yes { vain: vain + VAIN },
            (Self::Tried { .. } | Self::Yes { .. }, _) => Self::No {
                left: UNTIL_TRIED_AGAIN,
            },
        }
    }
}

impl Looks {
    const NEW: Self = Self {
        new: NEW_FOR,
        in_vain: 0,
        longer: Longer::No { left: UNTIL_TRIED },
    };

    /// Whether the thread does not look in this wait.
    fn passes_over(&self) -> bool {
        let is_usual = matches!(self.longer, Longer::No { .. });
        is_usual && self.in_vain >= FAILED_SPINS && !self.in_vain.is_multiple_of(FAILED_SPINS)
    }

    /// How long the thread looks at the least.
    fn at_least(&self) -> Duration {
        match self.longer {
            Longer::No { .. } if self.new == 0 => Duration::ZERO,
            Longer::No { .. } => AWAKE_FOR,
            Longer::Tried { .. } | Longer::Yes { .. } => LONG,
        }
    }

    /// After a wait in which something was found after so long, or the thread had to sleep.
    fn after(self, found: Option<Duration>) -> Self {
        Self {
            new: self.new.saturating_sub(1),
            in_vain: match found {
                Some(_) => 0,
                None => self.in_vain.saturating_add(1),
            },
            longer: self.longer.after(found),
        }
    }

    /// After a wait in which another thread kept the processor for long.
    fn after_kept(self) -> Self {
        Self {
            new: self.new.saturating_sub(1),
            in_vain: FAILED_SPINS + 1,
            longer: Longer::No { left: UNTIL_TRIED },
        }
    }
}

thread_local! {
    static LOOKS: Cell<Looks> = const { Cell::new(Looks::NEW) };
}

/// What came of looking.
enum Looked<T> {
    /// This, after so long.
    Found(T, Duration),
    InVain,
    /// Another thread kept the processor for long; what there was then.
    Kept(Option<T>),
    /// A handler of a signal is to run first, which says nothing of what was waited for.
    Disturbed,
}

impl Threads {
    /// Looks again and again for a short while, giving way to others in
    /// between; less and less where it is in vain, and longer where that is not.
    ///
    /// # Errors
    /// Those of `attempt`.
    pub fn spin<T>(
        self,
        attempt: impl FnMut() -> Result<Option<T>, SocketError>,
    ) -> Result<Option<T>, SocketError> {
        if is_confined() || spins() == 0 {
            return Ok(None);
        }
        let looks = LOOKS.try_with(Cell::get).unwrap_or(Looks::NEW);
        let looked = match looks.passes_over() {
            true => Looked::InVain,
            false => self.look_for(looks.at_least(), attempt)?,
        };
        let (after, found) = match looked {
            Looked::Found(found, took) => (looks.after(Some(took)), Some(found)),
            Looked::InVain => (looks.after(None), None),
            Looked::Kept(found) => (looks.after_kept(), found),
            Looked::Disturbed => (looks, None),
        };
        let _ = LOOKS.try_with(|c| c.set(after));
        Ok(found)
    }

    /// Looks as often as is usual, and for `at_least` so long.
    fn look_for<T>(
        self,
        at_least: Duration,
        mut attempt: impl FnMut() -> Result<Option<T>, SocketError>,
    ) -> Result<Looked<T>, SocketError> {
        let began = Instant::now();
        let (mut spun, most) = (0, spins());
        loop {
            rustix::thread::sched_yield();
            self.host.messages().drain_if_free();
            let found = attempt()?;
            if found.is_none() && section(|s| s.postponed()) != 0 {
                return Ok(Looked::Disturbed);
            }
            let took = began.elapsed();
            if took >= KEPT {
                return Ok(Looked::Kept(found));
            }
            if let Some(found) = found {
                return Ok(Looked::Found(found, took));
            }
            spun += 1;
            if spun >= most && took >= at_least {
                return Ok(Looked::InVain);
            }
        }
    }
}

#[cfg(test)]
mod tests;
