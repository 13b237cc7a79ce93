//! TCP_INFO: what a connection knows of itself, as Linux lays it out.

use longshore_tcp::TcpInfo;

/// Linux's `struct tcp_info` up to `tcpi_rcv_ooopack`, little-endian.
pub(crate) fn linux_tcp_info(info: &TcpInfo) -> Vec<u8> {
    info.to_linux().to_vec()
}
