//! Cookies of a configured key (Linux's net.ipv4.tcp_fastopen_key): the same that Linux
//! computes, so that servers behind one address, on Longshore or on the kernel, accept
//! each other's.
//!
//! Owns [`FastOpenKey`]. A cookie is SipHash-2-4 of both addresses (Aumasson and
//! Bernstein, "SipHash: a fast short-input PRF"), keyed with 128 bits.

use core::net::IpAddr;
use longshore_wire::tcp::FastOpenCookie;

/// A key of 128 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastOpenKey(u64, u64);

impl FastOpenKey {
    /// Parses a key as in tcp_fastopen_key: four groups of hexadecimal digits, joined by
    /// `-`. `None` for anything else, and for 0, which means no key.
    #[must_use]
    pub fn parse(text: &str) -> Option<FastOpenKey> {
        let mut groups = text.split('-').map(|g| u32::from_str_radix(g, 16).ok());
        let mut word = || Some(u64::from(groups.next()??));
        let (a, b, c, d) = (word()?, word()?, word()?, word()?);
        let key = FastOpenKey(b << 32 | a, d << 32 | c);
        (groups.next().is_none() && key != FastOpenKey(0, 0)).then_some(key)
    }

    /// The cookie for a client of a server; `None` if their addresses differ in IP
    /// version.
    #[must_use]
    pub fn cookie(&self, client: IpAddr, server: IpAddr) -> Option<FastOpenCookie> {
        let hash = match (client, server) {
            (IpAddr::V4(c), IpAddr::V4(s)) => {
                let mut both = [0; 8];
                both[..4].copy_from_slice(&c.octets());
                both[4..].copy_from_slice(&s.octets());
                self.sip(&both)
            }
            (IpAddr::V6(c), IpAddr::V6(s)) => {
                let mut both = [0; 32];
                both[..16].copy_from_slice(&c.octets());
                both[16..].copy_from_slice(&s.octets());
                self.sip(&both)
            }
            _ => return None,
        };
        FastOpenCookie::new(&hash.to_le_bytes())
    }

    /// SipHash-2-4 of `message`.
    fn sip(&self, message: &[u8]) -> u64 {
        let mut v = [
            self.0 ^ 0x736f_6d65_7073_6575,
            self.1 ^ 0x646f_7261_6e64_6f6d,
            self.0 ^ 0x6c79_6765_6e65_7261,
            self.1 ^ 0x7465_6462_7974_6573,
        ];
        let mut absorb = |word: u64| {
            v[3] ^= word;
            round(&mut v);
            round(&mut v);
            v[0] ^= word;
        };
        let words = message.chunks_exact(8);
        let mut last = [0; 8];
        for (to, from) in last.iter_mut().zip(words.remainder()) {
            *to = *from;
        }
        last[7] = message.len() as u8;
        for word in words {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(word);
            absorb(u64::from_le_bytes(bytes));
        }
        absorb(u64::from_le_bytes(last));
        v[2] ^= 0xff;
        for _ in 0..4 {
            round(&mut v);
        }
        v[0] ^ v[1] ^ v[2] ^ v[3]
    }
}

fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[2] = v[2].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[1]);
    v[0] = v[0].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test vectors of the paper's authors: key and message are ascending bytes.
    #[test]
    fn the_hash_is_siphash() {
        let key = FastOpenKey(0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908);
        let message: Vec<u8> = (0..15).collect();
        assert_eq!(key.sip(&[]), 0x726f_db47_dd0e_0e31);
        assert_eq!(key.sip(&message), 0xa129_ca61_49be_45e5);
    }

    #[test]
    fn a_key_is_read_or_refused() {
        let key = FastOpenKey::parse("00000001-00000002-00000003-00000004");
        assert_eq!(
            key,
            Some(FastOpenKey(0x0000_0002_0000_0001, 0x0000_0004_0000_0003))
        );
        for bad in [
            "",
            "1-2-3",
            "1-2-3-4-5",
            "1-2-3-x",
            "00000000-00000000-00000000-00000000",
        ] {
            assert_eq!(FastOpenKey::parse(bad), None, "{bad}");
        }
    }

    /// Cookies that a kernel with this key generated for these addresses.
    #[test]
    fn the_cookies_are_the_kernels() {
        let key = FastOpenKey::parse("a1a1a1a1-b2b2b2b2-c3c3c3c3-d4d4d4d4").expect("a key");
        let cookie = |client: &str, server: &str| {
            let (client, server) = (client.parse().expect("IP"), server.parse().expect("IP"));
            key.cookie(client, server).map(|c| c.as_bytes().to_vec())
        };
        let v4 = [0x30, 0x21, 0xb9, 0xd8, 0x89, 0x01, 0x7e, 0xeb];
        assert_eq!(cookie("192.0.2.1", "192.168.0.1"), Some(v4.to_vec()));
        let v6 = [0xc1, 0xd1, 0xe9, 0x74, 0x2a, 0x47, 0xa9, 0xbc];
        let given = cookie("fd3d:fa7b:d17d::1", "fd3d:a0b:17d6::1");
        assert_eq!(given, Some(v6.to_vec()));
        assert_eq!(cookie("192.0.2.1", "::1"), None);
    }
}
