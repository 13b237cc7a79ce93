//! An echo of datagrams: one of the small programs, and the far end of `measure latency`'s
//! figures for the kernel alone.

use std::net::UdpSocket;

/// Sends each datagram back to where it came from, until the socket fails.
pub(crate) fn answer_datagrams(socket: &UdpSocket) {
    let mut piece = vec![0; 65_536];
    while let Ok((len, from)) = socket.recv_from(&mut piece) {
        let _ = socket.send_to(&piece[..len], from);
    }
}
