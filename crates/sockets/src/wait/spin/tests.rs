//! How often and how long a thread looks, by what came of its waits before.

use super::*;
use crate::testing::Engine;
use crate::testing::fixture::{engine, in_a_thread};

/// What a thread does in a wait that is in vain, after it has had such waits: how often it looks,
/// for how long, and what it has learned.
fn look_in_vain(before: Looks) -> (u32, Duration, Looks) {
    let (_engine, host, _directory) = engine();
    in_a_thread(|| {
        LOOKS.set(before);
        let (began, mut looks) = (Instant::now(), 0);
        let found = host.threads().spin(|| {
            looks += 1;
            Ok(None::<()>)
        });
        assert_eq!(found, Ok(None));
        (looks, began.elapsed(), LOOKS.get())
    })
}

fn with(longer: Longer) -> Looks {
    Looks {
        new: 0,
        in_vain: 0,
        longer,
    }
}

/// Waits after which something was found: at once, as late as counts for longer looks, and too
/// late; and one in vain.
const AT_ONCE: Option<Duration> = Some(Duration::ZERO);
const JUST: Option<Duration> = Some(SOON);
const LATE: Option<Duration> = Some(SOON.saturating_add(Duration::from_nanos(1)));
const VAINLY: Option<Duration> = None;

/// After such waits.
fn after(waits: &[Option<Duration>], longer: Longer) -> Longer {
    waits.iter().fold(longer, |l, found| l.after(*found))
}

/// A thread that looks in vain leaves the processor to others, and looks again now and then.
#[test]
fn looks_that_are_in_vain_are_given_up_but_for_some() {
    let (_engine, host, _directory) = engine();
    in_a_thread(|| {
        let mut looked = Vec::new();
        for _ in 0..200 {
            let mut looks = 0;
            let found = host.threads().spin(|| {
                looks += 1;
                Ok(None::<()>)
            });
            assert_eq!(found, Ok(None));
            looked.push(looks != 0);
        }
        let last = &looked[looked.len() - 64..];
        let count = last.iter().filter(|looked| **looked).count();
        assert!((1..=8).contains(&count), "{looked:?}");
        assert!(looked[0]);
    });
    let found = in_a_thread(|| host.threads().spin(|| Ok(Some(5))));
    assert_eq!(found, Ok(Some(5)));
    in_a_thread(|| {
        let fails = host
            .threads()
            .spin(|| Err::<Option<()>, _>(SocketError::BrokenPipe));
        assert_eq!(fails, Err(SocketError::BrokenPipe));
    });
}

/// It looks a dozen times, and a new thread at least for as long as a processor that sleeps takes
/// to be woken; unless another thread has had the processor for long.
#[test]
fn a_new_thread_looks_for_longer_than_others() {
    let (looks, took, after) = look_in_vain(Looks::NEW);
    assert!(looks >= SPINS || took >= KEPT, "{looks} {took:?}");
    assert!(took >= AWAKE_FOR, "{took:?}");
    assert_eq!(after.new, NEW_FOR - 1);
    let (looks, took, after) = look_in_vain(with(Longer::No { left: 1 }));
    assert!(looks == SPINS || took >= KEPT, "{looks} {took:?}");
    assert_eq!(after.new, 0);
}

/// No more often, though others may have the processor in between, after which it looks less often.
#[test]
fn a_thread_looks_so_often_at_the_most() {
    let (_engine, host, _directory) = engine();
    in_a_thread(|| {
        for _ in 0..100 {
            LOOKS.set(with(Longer::No { left: 1 }));
            let mut looks = 0;
            let found = host.threads().spin(|| {
                looks += 1;
                Ok(None::<()>)
            });
            assert_eq!(found, Ok(None));
            assert!(looks <= SPINS, "{looks}");
        }
    });
}

/// A thread is new for so many waits, and then no longer.
#[test]
fn a_thread_is_new_for_a_while() {
    let mut looks = Looks::NEW;
    for _ in 0..NEW_FOR {
        assert_eq!(looks.at_least(), AWAKE_FOR);
        looks = looks.after(AT_ONCE);
    }
    assert_eq!(looks.at_least(), Duration::ZERO);
    assert_eq!(looks.after(AT_ONCE), looks);
}

/// A trial, and the waits of a thread that nearly always finds something so, are longer.
#[test]
fn a_thread_that_looks_for_longer_does_so_for_its_time() {
    for longer in [Longer::Tried { found: 3 }, Longer::Yes { vain: 0 }] {
        let (looks, took, after) = look_in_vain(with(longer));
        assert!(looks >= SPINS || took >= KEPT, "{looks} {took:?}");
        assert!(took >= LONG, "{took:?}");
        assert!(after.longer != longer && (took >= KEPT || after.in_vain == 1));
    }
    // What comes within that time is found by it, and not by the usual looks.
    let (_engine, host, _directory) = engine();
    in_a_thread(|| {
        LOOKS.set(with(Longer::Tried { found: TRIALS - 1 }));
        let began = Instant::now();
        let comes = || Ok((began.elapsed() > LONG / 2).then_some(7));
        assert_eq!(host.threads().spin(comes), Ok(Some(7)));
        assert!(LOOKS.get().longer == Longer::Yes { vain: 0 } || began.elapsed() >= KEPT);
    });
}

/// Where waits in vain have gone before, it is tried although the usual looks are given up.
#[test]
fn longer_looks_are_tried_after_some_waits_in_vain() {
    let mut looks = Looks::NEW;
    for _ in 0..UNTIL_TRIED {
        looks = looks.after(VAINLY);
    }
    assert_eq!(looks.longer, Longer::No { left: 0 });
    looks = looks.after(VAINLY);
    assert_eq!(looks.longer, Longer::Tried { found: 0 });
    assert!(!looks.passes_over() && looks.in_vain > FAILED_SPINS);
    // What the usual looks find needs none.
    let usual = Longer::No { left: 5 };
    assert_eq!(after(&[AT_ONCE; 100], usual), usual);
}

const AGAIN: Longer = Longer::No {
    left: UNTIL_TRIED_AGAIN,
};

/// Each of a trial's waits has to find something, though not soon: others still sleep.
#[test]
fn a_trial_is_passed_by_waits_that_all_find_something() {
    let tried = Longer::Tried { found: 0 };
    let almost = after(&[LATE; TRIALS as usize - 1], tried);
    assert_eq!(almost.after(VAINLY), AGAIN);
    assert_eq!(almost.after(LATE), Longer::Yes { vain: 0 });
}

#[test]
fn longer_looks_are_kept_while_one_in_five_at_the_most_is_in_vain() {
    let yes = Longer::Yes { vain: 0 };
    for vain in [VAINLY, LATE] {
        let one_in_five = [vain, JUST, AT_ONCE, JUST, JUST];
        assert_eq!(after(&one_in_five.repeat(50), yes), yes);
        let one_in_four = [vain, JUST, JUST, JUST];
        let given_up = after(&one_in_four.repeat(20), yes);
        assert!(matches!(given_up, Longer::No { .. }), "{given_up:?}");
        let most = (MOST_VAIN / VAIN) as usize;
        let almost = after(&vec![vain; most - 1], yes);
        assert!(matches!(almost, Longer::Yes { .. }));
        assert_eq!(almost.after(vain), AGAIN);
    }
}

/// What the engine has told counts for each look.
#[test]
fn a_look_is_at_what_the_engine_has_told() {
    let (engine, host, _directory) = engine();
    let (a, b) = Engine::pair(host);
    a.write_all(b"x").unwrap();
    engine.wait_until("it has told of it", |_| {
        host.session.has_completions(host.own_channel())
    });
    assert_eq!(b.socket().block().rcv.held(), 0);
    in_a_thread(|| {
        let held = || Ok(Some(b.socket().block().rcv.held()));
        assert_eq!(host.threads().spin(held), Ok(Some(1)));
    });
}

/// Where another thread kept the processor, a thread sleeps at once for some waits.
#[test]
fn a_thread_that_others_keep_from_the_processor_sleeps() {
    let (_engine, host, _directory) = engine();
    in_a_thread(|| {
        LOOKS.set(with(Longer::Yes { vain: 0 }));
        let slow = || {
            std::thread::sleep(KEPT);
            Ok(Some(1))
        };
        assert_eq!(host.threads().spin(slow), Ok(Some(1)));
        let after = LOOKS.get();
        assert!(after.passes_over());
        assert_eq!(after.longer, Longer::No { left: UNTIL_TRIED });
    });
}
