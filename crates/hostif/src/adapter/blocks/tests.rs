//! Blocks that are taken for connections and given back, and what is written to them.

use super::*;
use crate::abi::Address;
use crate::adapter::AdapterSession;
use crate::adapter::session::small;
use std::sync::Arc;

fn record(socket: SocketId) -> AcceptRecord {
    AcceptRecord {
        socket,
        local: Address::NONE,
        peer: Address::NONE,
        send_limit: 5000,
        subscriber: None,
        has_mark: false,
    }
}

/// Bytes of words that were written so far.
fn written(session: &AdapterSession) -> u64 {
    session.crossings().to_host.control.bytes
}

#[test]
fn a_block_that_a_program_gave_back_while_it_is_used_is_not_taken() {
    let session = small();
    let first = session.blocks().take(|_| false).unwrap();
    assert_eq!(session.meter.bad_descriptors(), 0);
    assert_eq!(session.blocks().take(|_| true), None);
    assert_eq!(session.meter.bad_descriptors(), 1);
    let next = session.blocks().take(|index| index == first.index).unwrap();
    assert_ne!(next.index, first.index);
}

/// It means nothing to a host that has not accepted it, but for its next use.
#[test]
fn a_block_that_nobody_has_begun_is_passed_over() {
    let session = small();
    let id = session.blocks().take(|_| false).unwrap();
    assert!(session.blocks().begun(id).is_none());
    session.blocks().set_error(id, 104, 1);
    assert!(!session.blocks().has_error(id) && session.blocks().edges_noted(id).is_none());
    let before = written(&session);
    session.blocks().give_back(id);
    assert_eq!(written(&session), before + 8);
    let again = session.blocks().take(|_| false).unwrap();
    let generation = id.generation.wrapping_add(1);
    assert_eq!((again.index, again.generation), (id.index, generation));
}

/// SO_LINGER, as the host writes it: seconds and one, so that 0 is none.
#[test]
fn how_a_socket_lingers_is_what_its_host_has_noted() {
    let session = small();
    let id = session.blocks().take(|_| false).unwrap();
    assert_eq!(session.blocks().linger_noted(id), None, "it is not begun");
    session.blocks().begin(BlockFlags::IPV6, &record(id));
    let arena = Arc::clone(session.arena());
    for (word, noted) in [(0, None), (1, Some(0)), (8, Some(7))] {
        arena.block(id.index).linger.store(word, Ordering::Relaxed);
        assert_eq!(session.blocks().linger_noted(id), noted);
    }
}

#[test]
fn a_block_within_the_engine_is_begun_and_free_when_it_is_given_back() {
    let session = small();
    let id = session.blocks().take(|_| false).unwrap();
    let before = written(&session);
    session.blocks().begin(BlockFlags::IPV6, &record(id));
    assert_eq!(written(&session), before + size_of::<SocketBlock>() as u64);
    let arena = Arc::clone(session.arena());
    let block = arena.block(id.index);
    assert!(block.is(id) && block.snd_limit() == 5000);
    assert_eq!(session.blocks().edges_noted(id), Some((0, 0)));
    session.blocks().set_error(id, 104, 3);
    assert!(session.blocks().has_error(id));
    assert_eq!(block.errors.load(Ordering::Relaxed), 3);
    assert_eq!(block.take_errno(), 104);
    let before = written(&session);
    session.blocks().give_back(id);
    assert_eq!(written(&session), before + 4);
    assert!(!block.is_in_use());
    assert_eq!(session.meter.bad_descriptors(), 0);
    // Once more is once too often: the list of free ones would have it twice.
    let before = written(&session);
    session.blocks().give_back(id);
    assert_eq!(written(&session), before, "it says so already");
}

#[test]
fn what_a_host_is_told_in_a_block_is_written_once_and_counted() {
    let session = small();
    let id = session.blocks().take(|_| false).unwrap();
    session.blocks().begin(BlockFlags::empty(), &record(id));
    let arena = Arc::clone(session.arena());
    let block = arena.block(id.index);
    let crossed = |session: &AdapterSession, tell: &dyn Fn(&AdapterSession)| {
        let before = written(session);
        tell(session);
        written(session) - before
    };
    for waits in [true, false] {
        for bytes in [4, 0] {
            let reported = crossed(&session, &|s| s.blocks().mark_waiting(id.index, waits));
            assert_eq!(reported, bytes);
            assert_eq!(block.flags().contains(BlockFlags::HAS_ENTERING), waits);
        }
    }
    for bytes in [4, 0] {
        let reported = crossed(&session, &|s| s.blocks().set_unreported_limit(id, 700));
        assert_eq!(reported, bytes);
        assert_eq!(block.unreported_limit.load(Ordering::Relaxed), 700);
    }
    assert_eq!(
        crossed(&session, &|s| s.blocks().set_other_end(id.index, 9)),
        4
    );
    assert_eq!(block.other_end(), Some(9));
    // What the program has set stays.
    assert_eq!(
        crossed(&session, &|s| s.blocks().suggest_send_limit(id.index, 9000)),
        0
    );
    assert_eq!(block.snd_limit(), 5000);
    assert_eq!(
        crossed(&session, &|s| s.blocks().set_send_limit(id.index, 0)),
        4
    );
    assert_eq!(
        crossed(&session, &|s| s.blocks().suggest_send_limit(id.index, 9000)),
        4
    );
    assert_eq!(block.snd_limit(), 9000);
    assert_eq!(
        crossed(&session, &|s| s.blocks().set_error_reports(id, 2)),
        4
    );
    assert_eq!(
        crossed(&session, &|s| s.blocks().forget_error_reports(id.index)),
        4
    );
    assert_eq!(block.errors.load(Ordering::Relaxed), 0);
    // A writer that was held up by its mark of 100 bytes may go on once, when it has gone by.
    for (sendable, usual, goes_on, bytes) in [
        (0, 0, false, 0),
        (40, 0, false, 8),
        (60, 0, true, 8),
        (60, 0, false, 0),
        (60, 7, false, 8),
    ] {
        let before = written(&session);
        let not_sent = NotSent {
            sendable,
            size_goal: 0,
            usual,
        };
        let may_go_on = session.blocks().note_sent(id, 100, &not_sent, 100);
        assert_eq!(may_go_on, goes_on, "{sendable}");
        assert_eq!(written(&session) - before, bytes, "{sendable}");
        assert_eq!(block.not_sent(), not_sent);
    }
    assert!(session.blocks().has(63) && !session.blocks().has(64));
}

#[test]
fn a_long_answer_is_cut_off_and_what_was_written_is_counted() {
    let session = small();
    let before = written(&session);
    assert_eq!(session.write_mailbox(0, &[1; 5]), 5);
    assert_eq!(written(&session), before + 5);
    let most = crate::abi::MAILBOX_BYTES;
    assert_eq!(session.write_mailbox(0, &[1; 100_000]), most);
}

/// Before it is accepted: its program finds it as it begins the block.
#[test]
fn a_connection_that_has_a_mark_is_told_of_it_at_once() {
    let session = small();
    let id = session.blocks().take(|_| false).unwrap();
    let not_sent = NotSent {
        sendable: 40,
        size_goal: 1448,
        usual: 100,
    };
    let before = written(&session);
    session.blocks().begin_not_sent(id.index, &not_sent);
    assert_eq!(written(&session) - before, 8 + 4 + 4);
    assert_eq!(session.arena().block(id.index).not_sent(), not_sent);
}
