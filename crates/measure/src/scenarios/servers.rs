//! nginx with one worker, the kernel's wrk asking.

use super::{About, Effort, Placement, Sample, Scenario, beside_generator, counted, rate_of_wrk};
use crate::generator::Service;
use longshore_testbed::{Host, Testbed, servers::Nginx};
use std::net::SocketAddr;

const PORT: u16 = 80;

pub(super) fn all() -> Vec<Box<dyn Scenario>> {
    let kept = Web {
        about: About::higher("nginx 1 KB, keep-alive", "requests/s")
            .ratio(1.2)
            .ratio_awake(1.3),
        size: 1 << 10,
        connections: "-c32",
        close: false,
    };
    vec![
        Box::new(kept),
        Box::new(Web {
            about: About::higher("nginx 1 KB, keep-alive, one connection", "requests/s")
                .ratio(2.5)
                .ratio_awake(1.2),
            connections: "-c1",
            ..kept
        }),
        Box::new(Web {
            about: About::higher("nginx 1 KB, close", "requests/s").ratio(1.5),
            close: true,
            ..kept
        }),
        Box::new(Web {
            about: About::higher("nginx 64 KB, keep-alive", "requests/s")
                .ratio(1.1)
                .ratio_awake(1.0),
            size: 64 << 10,
            ..kept
        }),
        Box::new(Web {
            about: About::higher("nginx 512 KB, keep-alive", "requests/s").ratio(1.0),
            size: 512 << 10,
            ..kept
        }),
    ]
}

#[derive(Clone, Copy)]
struct Web {
    /// Bytes of the file that is asked for.
    size: u64,
    /// wrk's argument for how many connections.
    connections: &'static str,
    /// A connection for each request.
    close: bool,
    about: About,
}

impl Web {
    /// Requests a second that wrk gets answered there.
    fn ask(&self, peer: &Host<'_>, server: SocketAddr, effort: Effort) -> f64 {
        let mut wrk = peer
            .cmd("wrk")
            .args(["-t1", self.connections, effort.pick("-d1s", "-d3s")]);
        if self.close {
            wrk = wrk.args(["-H", "Connection: close"]);
        }
        rate_of_wrk(&wrk.arg(format!("http://{server}/file")).check())
    }
}

impl Scenario for Web {
    fn about(&self) -> About {
        self.about
    }

    fn run(&self, bed: &Testbed, placement: Placement, effort: Effort) -> Sample {
        let (host, peer) = placement.hosts(bed);
        let _ = bed.payload("www/file", self.size);
        let _nginx = host
            .cmd("nginx")
            .arg("-c")
            .arg(Nginx::default().config(bed))
            .spawn();
        peer.wait_for(host.at(PORT));
        let (value, crossings) = counted(bed, || self.ask(&peer, host.at(PORT), effort));
        Sample { value, crossings }
    }

    fn run_bare(&self, bed: &Testbed, placement: Placement, effort: Effort) -> Option<f64> {
        let content = usize::try_from(self.size).ok()?;
        let closes = self.close;
        let served = (PORT, Service::Http { content, closes });
        let ask = |peer: &Host<'_>, server| self.ask(peer, server, effort);
        Some(beside_generator(bed, placement, served, ask))
    }
}
