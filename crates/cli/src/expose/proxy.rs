//! The header of the PROXY protocol, by which the relay tells a program who its client is:
//! version 1 in a line of text, version 2 in binary
//! (<https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>, sections 2.1 and 2.2).

use crate::expose_order::Proxy;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Version 2, PROXY; TCP over IPv4 and over IPv6.
const VERSION_AND_COMMAND: u8 = 0x21;
const TCP4: u8 = 0x11;
const TCP6: u8 = 0x21;

/// What goes before the first byte of a connection from `client`, which has reached `at`.
pub(super) fn header(version: Proxy, client: SocketAddr, at: SocketAddr) -> Vec<u8> {
    let [from, to] = [client, at].map(|a| SocketAddr::new(a.ip().to_canonical(), a.port()));
    let (from_ip, to_ip) = match (from.ip(), to.ip()) {
        // Both of one version, whatever a dual-stack socket has made of them.
        (IpAddr::V4(a), IpAddr::V6(b)) => (a.to_ipv6_mapped().into(), IpAddr::V6(b)),
        (IpAddr::V6(a), IpAddr::V4(b)) => (IpAddr::V6(a), b.to_ipv6_mapped().into()),
        same => same,
    };
    match version {
        Proxy::V1 => {
            let family = if from_ip.is_ipv4() { "TCP4" } else { "TCP6" };
            let (from_port, to_port) = (from.port(), to.port());
            format!("PROXY {family} {from_ip} {to_ip} {from_port} {to_port}\r\n").into_bytes()
        }
        Proxy::V2 => {
            let mut bytes = SIGNATURE.to_vec();
            let addresses: Vec<u8> = match (from_ip, to_ip) {
                (IpAddr::V4(a), IpAddr::V4(b)) => [a.octets(), b.octets()].concat(),
                (a, b) => [v6(a).octets(), v6(b).octets()].concat(),
            };
            let family = if from_ip.is_ipv4() { TCP4 } else { TCP6 };
            bytes.extend([VERSION_AND_COMMAND, family]);
            bytes.extend((addresses.len() as u16 + 4).to_be_bytes());
            bytes.extend(addresses);
            bytes.extend(from.port().to_be_bytes());
            bytes.extend(to.port().to_be_bytes());
            bytes
        }
    }
}

fn v6(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_line_of_text() {
        let line = |client: &str, at: &str| {
            String::from_utf8(header(Proxy::V1, address(client), address(at))).unwrap()
        };
        assert_eq!(
            line("192.0.2.7:4000", "198.51.100.1:80"),
            "PROXY TCP4 192.0.2.7 198.51.100.1 4000 80\r\n"
        );
        assert_eq!(
            line("[::ffff:192.0.2.7]:4000", "[::ffff:198.51.100.1]:80"),
            "PROXY TCP4 192.0.2.7 198.51.100.1 4000 80\r\n"
        );
        assert_eq!(
            line("[2001:db8::7]:4000", "[2001:db8::1]:80"),
            "PROXY TCP6 2001:db8::7 2001:db8::1 4000 80\r\n"
        );
    }

    #[test]
    fn binary() {
        let bytes = header(
            Proxy::V2,
            address("192.0.2.7:4000"),
            address("198.51.100.1:80"),
        );
        let expected = [
            0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a, 0x21, 0x11, 0,
            12, 192, 0, 2, 7, 198, 51, 100, 1, 0x0f, 0xa0, 0, 80,
        ];
        assert_eq!(bytes, expected);
        let bytes = header(
            Proxy::V2,
            address("[2001:db8::7]:1"),
            address("[2001:db8::1]:2"),
        );
        assert_eq!((bytes.len(), bytes[13], bytes[15]), (16 + 36, 0x21, 36));
    }
}
