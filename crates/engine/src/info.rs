//! TCP_INFO: what a connection knows of itself, as Linux lays it out.

use crate::socket::Kind;
use longshore_tcp::{LINUX_TCP_INFO_LEN, State, TcpInfo};

/// Linux's `struct tcp_info` up to `tcpi_rcv_ooopack`, little-endian.
pub(crate) fn linux_tcp_info(info: &TcpInfo) -> Vec<u8> {
    info.to_linux().to_vec()
}

/// Linux's number of the state LISTEN.
const LISTEN: u8 = 10;

fn only_state(state: u8) -> Vec<u8> {
    let mut bytes = vec![0; LINUX_TCP_INFO_LEN];
    bytes[0] = state;
    bytes
}

/// A connection between two of our own: established, without a path to measure.
pub(crate) fn of_pair() -> Vec<u8> {
    only_state(State::Established as u8)
}

/// A socket that has no connection.
pub(crate) fn without_connection(kind: &Kind) -> Vec<u8> {
    only_state(if matches!(kind, Kind::Listener(_)) {
        LISTEN
    } else {
        State::Closed as u8
    })
}
