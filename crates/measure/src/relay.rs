//! A bad path between two hosts: what one end sends arrives at the other late,
//! at a limited rate, past a queue, and some of it not at all, twice, or out of
//! order. The kernels we run on may have no netem.
//!
//! Owns two ports (TAP devices in the hosts' namespaces) and the wire between
//! them, which is the simulated one of `ports`, moved by the clock: so the luck of
//! every frame comes from a seed. One thread does all; it sleeps while the next
//! arrival is far, and looks at the clock all the time when it is near.

use longshore_ports::segment::Segmenter;
use longshore_ports::sim::{SimClock, SimConfig, SimPort, wire};
use longshore_ports::{FaultCounts, Port, PortError, RECV_ROOM, TxFrame};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long before an arrival the relay stops sleeping: a wake-up takes this long
/// on a virtual machine.
const NEAR: Duration = Duration::from_micros(80);
/// Frames taken from one end before the other gets its turn.
const BURST: usize = 64;

/// What a relay has done, forth and back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RelayCounts {
    /// What chance has done.
    pub faults: [FaultCounts; 2],
    /// Frames that found the queue before the wire full.
    pub queue_full: [u64; 2],
    /// Frames that their receiver did not take.
    pub refused: [u64; 2],
}

/// A relay at work, until it is stopped or dropped.
#[derive(Debug)]
pub struct Relay {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<Result<RelayCounts, PortError>>>,
}

impl Relay {
    /// Joins two ports through a wire.
    ///
    /// # Errors
    /// Those of making a descriptor and a thread.
    pub fn start<P: Port + 'static>(
        left: P,
        right: P,
        config: &SimConfig,
    ) -> std::io::Result<Self> {
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let (near, far, clock) = wire(config);
        let mut work = Work {
            ports: [left, right],
            ends: [near, far],
            clock,
            start: Instant::now(),
            stop: stop.clone(),
            frame: vec![0; RECV_ROOM],
            segment: Vec::new(),
            refused: [0; 2],
        };
        let thread = std::thread::Builder::new()
            .name("relay".to_owned())
            .spawn(move || work.run())?;
        Ok(Relay {
            stop,
            thread: Some(thread),
        })
    }

    /// Ends it and says what it did.
    ///
    /// # Errors
    /// What a port failed with, if one did.
    ///
    /// # Panics
    /// If the relay's thread did.
    pub fn stop(mut self) -> Result<RelayCounts, PortError> {
        let thread = self.end();
        thread.map_or(Ok(RelayCounts::default()), |t| {
            t.join().expect("the relay does not panic")
        })
    }

    fn end(&mut self) -> Option<JoinHandle<Result<RelayCounts, PortError>>> {
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        self.thread.take()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if let Some(thread) = self.end() {
            let _ = thread.join();
        }
    }
}

/// The thread's own.
struct Work<P> {
    ports: [P; 2],
    /// The wire's ends, each facing the port of the same index.
    ends: [SimPort; 2],
    clock: SimClock,
    start: Instant,
    stop: Arc<OwnedFd>,
    frame: Vec<u8>,
    segment: Vec<u8>,
    refused: [u64; 2],
}

impl<P: Port> Work<P> {
    fn run(&mut self) -> Result<RelayCounts, PortError> {
        // Timers may otherwise be 50 us late so that they can be served together.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        // A path does not wait for a turn: without this the hosts' programs keep the
        // processor for 3 ms before the relay gets it back.
        let this = rustix::thread::gettid();
        let _ = rustix::process::setpriority_process(Some(this), -20);
        loop {
            self.clock.advance_to(self.start.elapsed());
            let mut moved = false;
            for side in 0..2 {
                moved |= self.take(side)?;
            }
            self.clock.advance_to(self.start.elapsed());
            for side in 0..2 {
                moved |= self.deliver(side)?;
            }
            if !moved && self.rest() {
                return Ok(RelayCounts {
                    faults: self.clock.fault_counts(),
                    queue_full: [0, 1].map(|side| self.ends[side].counters().drops.queue_full),
                    refused: self.refused,
                });
            }
        }
    }

    /// Frames from a host onto the wire.
    fn take(&mut self, side: usize) -> Result<bool, PortError> {
        let link = self.ports[side].capabilities().link;
        for count in 0..BURST {
            let Some(meta) = self.ports[side].recv(&mut self.frame)? else {
                return Ok(count != 0);
            };
            let frame = &self.frame[..meta.len];
            let Ok(mut segments) = Segmenter::of_received(frame, &meta, link) else {
                self.refused[side] += 1;
                continue;
            };
            while segments.next_into(&mut self.segment) {
                match self.ends[side].send(&TxFrame::whole(&self.segment)) {
                    Ok(()) => {}
                    // Longer than the wire's MTU.
                    Err(_) => self.refused[side] += 1,
                }
            }
        }
        Ok(true)
    }

    /// Frames whose time has come, to a host.
    fn deliver(&mut self, side: usize) -> Result<bool, PortError> {
        let mut any = false;
        while let Some(meta) = self.ends[side].recv(&mut self.frame)? {
            any = true;
            match self.ports[side].send(&TxFrame::whole(&self.frame[..meta.len])) {
                Ok(()) => {}
                Err(PortError::Full) => self.refused[1 - side] += 1,
                Err(error) => return Err(error),
            }
        }
        Ok(any)
    }

    /// Waits for a frame or for the time of the next arrival; says whether it is
    /// all over.
    fn rest(&self) -> bool {
        let until = self
            .clock
            .next_arrival()
            .map(|at| at.saturating_sub(self.start.elapsed()));
        if until.is_some_and(|d| d <= NEAR) {
            std::hint::spin_loop();
            return false;
        }
        let timeout = until.map(|d| d - NEAR).map(|d| Timespec {
            tv_sec: d.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: d.subsec_nanos().into(),
        });
        let mut fds = vec![PollFd::new(&self.stop, PollFlags::IN)];
        let ports = self.ports.iter().filter_map(Port::fd);
        fds.extend(ports.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => !fds[0].revents().is_empty(),
            Err(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longshore_ports::Faults;
    use longshore_ports::sim::Direction;
    use longshore_ports::tap::{Tap, TapConfig};
    use std::net::{IpAddr, Ipv4Addr, UdpSocket};

    /// How long anything may take: machines are slow, and busy with other tests.
    const TIMEOUT: Duration = Duration::from_secs(60);

    /// A host in a network namespace of its own, whose interface ends in a TAP.
    fn host(last: u8) -> Option<(Tap, UdpSocket)> {
        std::thread::spawn(move || {
            if !longshore_testbed::in_own_namespace() {
                return None;
            }
            let address = Ipv4Addr::new(10, 79, 0, last);
            let tap = Tap::open(&TapConfig {
                kernel_addresses: vec![(IpAddr::V4(address), 24)],
                ..TapConfig::create("wan").unwrap()
            })
            .unwrap();
            let socket = UdpSocket::bind((address, 7)).unwrap();
            Some((tap, socket))
        })
        .join()
        .unwrap()
    }

    #[test]
    fn frames_come_late_and_by_the_rate_and_some_not_at_all() {
        let (Some((left, near)), Some((right, far))) = (host(1), host(2)) else {
            return;
        };
        let delay = Duration::from_millis(20);
        let config = SimConfig {
            forth: Direction {
                delay,
                rate: Some(10_000_000),
                queue: 1_000_000,
                faults: Faults {
                    loss: 0.5,
                    ..Faults::default()
                },
                ..Direction::default()
            },
            back: Direction {
                delay,
                ..Direction::default()
            },
            ..SimConfig::default()
        };
        let relay = Relay::start(left, right, &config).unwrap();
        let mut buf = [0; 2000];
        let begin = Instant::now();
        // Addresses are asked for through the losses first.
        far.connect("10.79.0.1:7").unwrap();
        near.set_read_timeout(Some(Duration::from_millis(200)))
            .unwrap();
        while near.recv(&mut buf).is_err() {
            far.send(b"hello").unwrap();
            assert!(begin.elapsed() < TIMEOUT, "nothing comes through");
        }
        near.connect("10.79.0.2:7").unwrap();
        let start = Instant::now();
        for _ in 0..100 {
            near.send(&[0; 1000]).unwrap();
        }
        // What ends them, as often as it takes to come through.
        far.set_read_timeout(Some(Duration::from_millis(10)))
            .unwrap();
        let mut came = Vec::new();
        loop {
            match far.recv(&mut buf) {
                Ok(1000) => came.push(start.elapsed()),
                Ok(_) => break,
                Err(_) => drop(near.send(b"end").unwrap()),
            }
            assert!(begin.elapsed() < TIMEOUT, "the end does not come");
        }
        let (first, last, came) = (came[0], came[came.len() - 1], came.len());
        let counts = relay.stop().unwrap();
        assert!(first >= delay, "{first:?}");
        // 1042 bytes take 834 us at this rate, lost or not.
        assert!(last >= delay + Duration::from_millis(40), "{last:?}");
        assert!((20..80).contains(&came), "{came}");
        assert!(counts.faults[0].lost as usize >= 100 - came);
        assert_eq!(counts.queue_full, [0, 0]);
    }
}
