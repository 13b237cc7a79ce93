//! nginx with one worker, the kernel's wrk asking.

use super::{About, Effort, Placement, Sample, Scenario, counted, rate_of_wrk};
use longshore_testbed::{Testbed, servers::Nginx};

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
        peer.wait_for(host.at(80));
        let (report, crossings) = counted(bed, || {
            let mut wrk =
                peer.cmd("wrk")
                    .args(["-t1", self.connections, effort.pick("-d1s", "-d3s")]);
            if self.close {
                wrk = wrk.args(["-H", "Connection: close"]);
            }
            wrk.arg(format!("http://{}/file", host.ip())).check()
        });
        Sample {
            value: rate_of_wrk(&report),
            crossings,
        }
    }
}
