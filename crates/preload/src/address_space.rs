//! RLIMIT_AS, the limit of a process's address space: the memory that it shares with the
//! engine does not count for it.
//!
//! That memory is reserved whole, 4 GB and more, and used as far as there is traffic. A
//! program with a limit (vsftpd gives itself 400 MB) would not get past it. So while a
//! process is in a session, the kernel's limit is higher by so much than what the program
//! has set and is shown ([`raised`], [`shown`]). That a limit is raised shows in the limit
//! itself, in bits below a page that the kernel does not look at: so it is known after fork
//! and exec, too. Called by `state`, when the process joins, and by `calls::limits`.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::atomic::{AtomicU64, Ordering};

/// The bits of a limit that are below a page.
const BELOW_A_PAGE: u64 = 0xfff;
/// What they are in a limit that is raised.
const MARK: u64 = 0x5a7;

/// Bytes that are shared with the engine; 0 before the process joins.
static SHARED: AtomicU64 = AtomicU64::new(0);

/// What the kernel is to have for a program's `limit`, with `shared` bytes that do not
/// count; `None` is no limit.
fn with(limit: Option<u64>, shared: u64) -> Option<u64> {
    let all = (limit? & !BELOW_A_PAGE).checked_add(shared)?;
    Some(all & !BELOW_A_PAGE | MARK)
}

/// What the program has set, of a `limit` of the kernel's.
fn without(limit: Option<u64>, shared: u64) -> Option<u64> {
    let limit = limit?;
    let is_raised = limit & BELOW_A_PAGE == MARK;
    Some(if is_raised {
        (limit & !BELOW_A_PAGE).saturating_sub(shared)
    } else {
        limit
    })
}

/// What the kernel is given for limits that the program sets, if they are those that hold
/// `now`. A process that may not raise the hard limit keeps it.
fn raise(limits: Rlimit, now: &Rlimit, shared: u64) -> Rlimit {
    let is_within = |limit: Option<u64>| match (limit, without(now.maximum, shared)) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(limit), Some(most)) => limit <= most,
    };
    let one = |limit: Option<u64>| match (with(limit, shared), now.maximum) {
        (Some(raised), Some(most)) if is_within(limit) => Some(raised.min(most)),
        (raised, _) => raised,
    };
    Rlimit {
        current: one(limits.current),
        maximum: one(limits.maximum),
    }
}

/// What the kernel is given for limits that the program sets.
pub(crate) fn raised(limits: Rlimit) -> Rlimit {
    raise(
        limits,
        &getrlimit(Resource::As),
        SHARED.load(Ordering::Relaxed),
    )
}

/// What the program is shown of the kernel's limits.
pub(crate) fn shown(limits: Rlimit) -> Rlimit {
    let shared = SHARED.load(Ordering::Relaxed);
    Rlimit {
        current: without(limits.current, shared),
        maximum: without(limits.maximum, shared),
    }
}

/// So many bytes are about to be mapped that do not count. Where the limit cannot be raised,
/// mapping them says so.
pub(crate) fn reserve(bytes: u64) {
    SHARED.store(bytes, Ordering::Relaxed);
    let now = getrlimit(Resource::As);
    let is_raised = |limit: Option<u64>| limit.is_some_and(|l| l & BELOW_A_PAGE == MARK);
    if now.current.is_none() || is_raised(now.current) {
        return;
    }
    let both = Rlimit {
        current: with(now.current, bytes),
        maximum: with(now.maximum, bytes),
    };
    // A user that may not raise the hard limit goes as far as that.
    if setrlimit(Resource::As, both).is_err() {
        let _ = setrlimit(Resource::As, raise(now, &now, bytes));
    }
}

/// What to say when the process cannot join, if a limit may be why.
pub(crate) fn hint() -> &'static str {
    match getrlimit(Resource::As).current {
        Some(_) => " (the limit of its address space, `ulimit -v`, may be too low)",
        None => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARED: u64 = 4 << 30;

    #[test]
    fn a_limit_that_is_raised_is_told_as_it_was_set() {
        for limit in [0, 4096, 400 << 20, 1 << 40] {
            let raised = with(Some(limit), SHARED);
            assert_eq!(raised, Some(limit + SHARED + MARK));
            assert_eq!(without(raised, SHARED), Some(limit));
        }
        assert_eq!(with(None, SHARED), None);
        assert_eq!(without(None, SHARED), None);
        // What nobody has raised, and what would be no limit.
        assert_eq!(without(Some(5000), SHARED), Some(5000));
        assert_eq!(with(Some(u64::MAX - 1), SHARED), None);
    }

    fn limits(current: Option<u64>, maximum: Option<u64>) -> Rlimit {
        Rlimit { current, maximum }
    }

    #[test]
    fn a_hard_limit_is_not_exceeded_by_what_is_within_it() {
        let most = Some(1 << 30);
        let now = limits(most, most);
        // It was not raised, and stays.
        let raised = raise(limits(Some(1 << 20), most), &now, SHARED);
        assert_eq!(raised, limits(most, most));
        // It was: what is set leaves room for what does not count.
        let now = limits(with(most, SHARED), with(most, SHARED));
        let raised = raise(limits(Some(1 << 20), most), &now, SHARED);
        assert_eq!(
            raised,
            limits(with(Some(1 << 20), SHARED), with(most, SHARED))
        );
        // More than the hard limit is the kernel's to refuse.
        let raised = raise(limits(most, Some(2 << 30)), &now, SHARED);
        assert_eq!(raised.maximum, with(Some(2 << 30), SHARED));
    }
}
