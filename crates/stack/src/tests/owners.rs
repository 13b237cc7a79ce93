//! The owner of a socket (F_SETOWN), who is told of urgent data.

use super::off_path::{GEOMETRY, accepted};
use super::own_ends::Own;
use super::single::Single;
use super::streams::append;
use longshore_hostif::{Request, SocketId};
use longshore_wire::tcp::{TcpFlags, TcpHeader};
use std::sync::atomic::Ordering;

/// The socket has an owner from now on, who gets SIGURG.
fn give_owner(single: &mut Single, socket: SocketId) {
    let owners = single.in_stack_mut().host.owners();
    assert_eq!(owners.make(socket, 1, |_| Some(None)).len(), 1);
    let (tag, waiter) = (1, None);
    single.ask(
        0,
        &Request::Owner {
            socket,
            tag,
            waiter,
        },
    );
    single.turn();
    single.discard_completions();
}

/// Where a handler of SIGURG finds the last urgent byte that has come; 0 if none was signalled.
fn signalled(single: &Single, socket: SocketId) -> u64 {
    let block = single.arena.block(socket.index);
    block.rcv.urgent_come.load(Ordering::Relaxed)
}

#[test]
fn an_owner_is_told_of_urgent_data_from_the_wire() {
    for has_owner in [false, true] {
        let mut single = Single::new(GEOMETRY, 1);
        let listener = single.listen();
        single.turn();
        let next = single.connect(0);
        single.turn();
        let socket = accepted(&mut single, listener, 0);
        if has_owner {
            give_owner(&mut single, socket);
        }
        let urgent = TcpHeader {
            flags: TcpFlags::URG | TcpFlags::ACK,
            urgent: 4,
            ..next
        };
        single.segment(&urgent, b"now!");
        single.turn();
        let reported = single.told_of(socket).expect("data");
        assert_eq!((reported.rcv_edge, reported.rcv_urgent), (4, 4));
        let expected = if has_owner { 4 } else { 0 };
        assert_eq!(signalled(&single, socket), expected);
    }
}

#[test]
fn an_owner_is_told_of_urgent_data_of_another_socket() {
    for has_owner in [false, true] {
        let Own {
            mut single,
            client,
            server,
        } = Own::new();
        if has_owner {
            give_owner(&mut single, server);
        }
        let snd_edge = append(&single.arena.clone(), client.index, 0, b"now!");
        let urgent = Request::Urgent {
            socket: client,
            snd_edge,
            rcv_consumed: 0,
        };
        single.ask(0, &urgent);
        single.turn();
        let reported = single.told_of(server).expect("data");
        assert_eq!((reported.rcv_edge, reported.rcv_urgent), (4, 4));
        let expected = if has_owner { 4 } else { 0 };
        assert_eq!(signalled(&single, server), expected);
    }
}
