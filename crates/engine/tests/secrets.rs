//! What an engine keeps secret: no two have the same.

mod common;

use common::engines::start;
use common::{Host, TIMEOUT};
use longshore_hostif::{Loopback, OptionName};
use longshore_ports::memory::{MemoryConfig, pair};
use longshore_ports::{Port, TxFrame};
use longshore_testbed::packets::{segment, syn};
use longshore_wire::ipv4::HEADER_LEN;
use longshore_wire::tcp::{FastOpenCookie, TcpFlags, TcpHeader, TcpOptions};
use std::net::Ipv4Addr;
use std::time::Instant;

const US: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);

/// The Fast Open cookie that an engine makes for a client.
fn cookie() -> FastOpenCookie {
    let dir = tempfile::tempdir().unwrap();
    let (ours, mut far) = pair(&MemoryConfig {
        offloads: false,
        ethernet: false,
        ..MemoryConfig::default()
    });
    let engine = start(
        dir.path(),
        "10.0.0.1/24",
        Box::new(ours),
        Loopback::Kernel,
        true,
    );
    let mut host = Host::new(&engine.path);
    let listener = host.listening("10.0.0.1:80");
    host.set(listener, OptionName::FastOpen, 1);
    let options = TcpOptions {
        fast_open: Some(FastOpenCookie::REQUEST),
        ..TcpOptions::default()
    };
    let packet = segment((CLIENT.into(), US.into()), &syn((1_024, 80), options), &[]);
    far.send(&TxFrame::whole(&packet)).unwrap();
    let (began, mut frame) = (Instant::now(), vec![0; 2_000]);
    loop {
        let Some(meta) = far.recv(&mut frame).unwrap() else {
            assert!(began.elapsed() < TIMEOUT, "nothing comes");
            std::thread::yield_now();
            continue;
        };
        let answer = frame.get(HEADER_LEN..meta.len).map(TcpHeader::parse);
        if let Some(Ok((answer, _))) = answer
            && answer.flags.contains(TcpFlags::SYN)
        {
            return answer.options.fast_open.expect("a cookie");
        }
    }
}

/// RFC 7413 section 4.1.2: whoever knows the cookies of one server cannot guess those of another.
#[test]
fn each_engine_makes_cookies_of_its_own() {
    assert_ne!(cookie(), cookie());
}
