//! A flood that is more than the engine can read is dropped at the port, as long as it lasts.

use super::{SYN, config, nobody, packet, syn};
use crate::common::{Host, TIMEOUT};
use longshore_engine::Engine;
use longshore_ports::memory::{MemoryConfig, MemoryPort, pair};
use longshore_ports::{Capabilities, Port, PortCounters, PortError, RxMeta, TxFrame};
use std::io::IoSliceMut;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

/// A port that notes what share of the SYNs it is to let through.
struct Noting {
    inner: MemoryPort,
    share: Arc<AtomicU8>,
}

impl Port for Noting {
    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    fn recv_scatter(&mut self, parts: &mut [IoSliceMut<'_>]) -> Result<Option<RxMeta>, PortError> {
        self.inner.recv_scatter(parts)
    }

    fn send(&mut self, frame: &TxFrame<'_>) -> Result<(), PortError> {
        self.inner.send(frame)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.fd()
    }

    fn drop_syns(&mut self, shift: u8) -> Result<bool, PortError> {
        self.share.store(shift, Ordering::Relaxed);
        Ok(true)
    }

    fn counters(&self) -> &PortCounters {
        self.inner.counters()
    }
}

#[test]
fn what_cannot_be_read_is_dropped_at_the_port() {
    let dir = tempfile::tempdir().unwrap();
    let (port, mut wire) = pair(&MemoryConfig {
        offloads: false,
        ethernet: false,
        depth: 1_000,
        ..MemoryConfig::default()
    });
    let share = Arc::new(AtomicU8::new(0));
    let port = Noting {
        inner: port,
        share: share.clone(),
    };
    let path = dir.path().join("door");
    let mut engine = Engine::new(config(port, path.clone(), None)).unwrap();
    let host = std::thread::spawn(move || {
        let mut host = Host::new(&path);
        host.listening("0.0.0.0:80");
        host
    });
    while !host.is_finished() {
        engine.turn_and_rest(Duration::from_millis(1)).unwrap();
    }
    let _host = host.join().unwrap();

    let start = Instant::now();
    let mut frame = vec![0; 2_000];
    let mut count = 0;
    let mut shares = vec![0];
    let mut turn = |syns: u32, shares: &mut Vec<u8>| {
        for _ in 0..syns {
            let client = nobody(count);
            assert!(syn(client).flags.contains(SYN));
            let _ = wire.send(&TxFrame::whole(&packet(client, &syn(client), &[])));
            count += 1;
        }
        engine.turn().unwrap();
        while wire.recv(&mut frame).unwrap().is_some() {}
        let now = share.load(Ordering::Relaxed);
        if shares.last() != Some(&now) {
            shares.push(now);
        }
        assert!(start.elapsed() < TIMEOUT, "{shares:?}");
    };
    // All that a turn reads is SYNs, and more are behind them, whatever share the port is
    // to let through.
    while shares.len() < 4 {
        turn(64, &mut shares);
    }
    assert_eq!(shares, [0, 2, 3, 4]);
    // Those that the queue holds still, and nothing more.
    while shares.last() != Some(&0) {
        turn(0, &mut shares);
    }
}
