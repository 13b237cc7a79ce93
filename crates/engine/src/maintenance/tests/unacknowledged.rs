//! Ends of connections that their peer has not acknowledged: no session waits for that, and a private
//! engine does.

use super::*;

/// An engine of one program, and another one at the other end of its wire, with a program that
/// listens.
fn engines() -> (Turned, Turned, (Host, SocketId)) {
    let (a, b) = longshore_ports::memory::pair(&Default::default());
    let private = Turned::with(|config| {
        config.port = Box::new(a);
        config.private = true;
    });
    let mut other = Turned::with(|config| {
        config.port = Box::new(b);
        config.addresses = vec!["10.0.0.2/24".parse().unwrap()];
    });
    let [mut server] = other.programs();
    let server = other.during(move |_| {
        let listener = server.listening("10.0.0.2:80");
        (server, listener)
    });
    (private, other, server)
}

/// A program of the private engine has so many other sockets, and a connection to the server, which gets
/// all data. Then the program ends, and the other engine hears nothing of that.
fn comes_and_leaves(
    private: &mut Turned,
    other: &mut Turned,
    (mut server, listener): (Host, SocketId),
    others: usize,
) -> (Host, SocketId) {
    let [mut client] = private.programs();
    for _ in 0..others {
        client.open(SocketKind::Datagram);
    }
    let socket = client.open(SocketKind::Stream);
    private.run_pending();
    assert_eq!(private.prospect(), Prospect::GoesOn);
    let (mut client, server) = during_both(private, other, |_, _| {
        assert_eq!(client.connect(socket, "10.0.0.2:80".parse().unwrap()), 0);
        let accepted = server.accept(listener).socket;
        client.send(socket, &[7; 1_000], EdgeFlags::empty());
        assert_eq!(server.receive(accepted, 1_000), [7; 1_000]);
        client.wait("its acknowledgment", |c| {
            (c.edges(socket)?.snd_acked == 1_000).then_some(())
        });
        (client, server)
    });
    client.close(socket);
    leaves(private, &mut client, 0);
    for _ in 0..3 {
        private.later(SECOND);
        assert_eq!(private.prospect(), Prospect::GoesOn);
    }
    assert_eq!(private.engine.programs.sessions.iter().count(), 0);
    (server, listener)
}

/// The private engine ends when the other one hears again.
fn ends(private: &mut Turned, other: &mut Turned) {
    let began = std::time::Instant::now();
    while private.prospect() != Prospect::IsOver {
        assert!(began.elapsed() < crate::testing::common::TIMEOUT);
        private.later(SECOND / 10);
        other.run_pending();
    }
}

#[test]
fn a_private_engine_ends_when_the_other_end_knows_that_its_program_has_ended() {
    let (mut private, mut other, server) = engines();
    let _server = comes_and_leaves(&mut private, &mut other, server, 0);
    ends(&mut private, &mut other);
}

/// The connection of the next one has the place of a socket that was found to have nothing to deliver.
#[test]
fn a_private_engine_waits_for_the_next_program_as_it_did_for_the_first() {
    let (mut private, mut other, server) = engines();
    let server = comes_and_leaves(&mut private, &mut other, server, 1);
    let _server = comes_and_leaves(&mut private, &mut other, server, 0);
    ends(&mut private, &mut other);
}
