//! Sockets that several processes have: what one of them asks takes no news from others.

mod common;

use common::Host;
use common::engines::{joined, sleepy};
use common::second::Second;
use longshore_hostif::{Completion, Request, SocketId, SocketKind};

const LISTENER: &str = "10.0.0.1:80";
/// Connections of which hardly one is left waiting.
const MANY: u64 = 50;

impl Second {
    /// Subscribes, together with what the first has put and not published.
    fn subscribe_with(&mut self, host: &mut Host, socket: SocketId) {
        self.channel.put(&Request::Subscribe { socket }).unwrap();
        host.channel.publish(&host.doorbell, false);
        self.channel.publish(&host.doorbell, true);
    }

    fn unsubscribe(&mut self, host: &Host, socket: SocketId) {
        self.channel.put(&Request::Unsubscribe { socket }).unwrap();
        self.channel.publish(&host.doorbell, true);
        while self.channel.get().unwrap().is_some() {}
        self.channel.release();
    }

    /// How far the stream of `socket` reaches, as it was told last.
    fn reached(&mut self, socket: SocketId) -> Option<u64> {
        let mut reached = None;
        while let Some(completion) = self.channel.get().unwrap() {
            if let Some(Completion::Edges { socket: of, edges }) = completion
                && of == socket
            {
                reached = Some(edges.rcv_edge);
            }
        }
        self.channel.release();
        reached
    }
}

#[test]
fn who_subscribes_takes_no_connection_from_who_listens_already() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, _wire) = sleepy(dir.path());
    let mut host = Host::new(&engine.path);
    let listener = host.open(SocketKind::Stream);
    host.bind(listener, LISTENER.parse().unwrap()).unwrap();
    assert_eq!(host.listen(listener), 0);
    let mut second = Second::join(&host);
    for tag in 1_000..1_020 {
        let socket = host.open(SocketKind::Stream);
        let connect = Request::Connect {
            socket,
            tag,
            waiter: None,
            peer: LISTENER.parse::<std::net::SocketAddr>().unwrap().into(),
        };
        host.channel.put(&connect).unwrap();
        second.subscribe_with(&mut host, listener);
        host.accept(listener);
        host.wait("the other to be told", |_| second.reached(listener));
        second.unsubscribe(&host, listener);
    }
}

/// A process that listens and never accepts is not told, unless a connection is left waiting; and
/// one that alone accepts has it from the beginning.
#[test]
fn a_connection_is_told_to_who_accepts_and_to_others_only_if_it_waits() {
    let dir = tempfile::tempdir().unwrap();
    let (near, far) = joined(dir.path(), "10.0.0.1/24", "10.0.0.2/24");
    let (mut host, mut client) = (Host::new(&near.path), Host::new(&far.path));
    let listener = host.open(SocketKind::Stream);
    host.bind(listener, LISTENER.parse().unwrap()).unwrap();
    assert_eq!(host.listen(listener), 0);
    let mut parent = Second::join(&host);
    parent.subscribe_with(&mut host, listener);
    host.wait("the parent", |_| parent.reached(listener));
    let mut connect = || {
        let socket = client.open(SocketKind::Stream);
        assert_eq!(client.connect(socket, LISTENER.parse().unwrap()), 0);
    };
    // Nobody has accepted before.
    connect();
    assert_eq!(host.accept(listener).subscriber, None);
    let record = host.wait("both to be told", |_| parent.reached(listener));
    let mut told = 0;
    for _ in 0..MANY {
        connect();
        let accepted = host.accept(listener);
        assert_eq!(accepted.subscriber, Some(host.channel.index() as u16));
        told += u64::from(parent.reached(listener).is_some());
    }
    // Some may have waited, on a machine that is busy.
    assert!(told < MANY);
    connect();
    host.wait("all to be told", |_| {
        (parent.reached(listener)? == (MANY + 2) * record).then_some(())
    });
}
