//! `longshore-demo`: nginx on Longshore serves files, whole and fast; beside it
//! the same on the kernel.

use longshore_bus::{Access, Bus, PciX};
use longshore_measure::report::{self, median, number};
use longshore_measure::{Crossings, plain_panics};
use longshore_testbed::{Host, Proc, Stack, Testbed, servers::Nginx};
use std::path::Path;
use std::time::Instant;

/// The files: name, bytes, how often each is fetched.
const FILES: [(&str, u64, usize); 4] = [
    ("1 KB", 1 << 10, 9),
    ("64 KB", 64 << 10, 9),
    ("512 KB", 512 << 10, 9),
    ("1 GB", 1 << 30, 3),
];

/// Shows what Longshore does: nginx on it serves files of 1 KB to 1 GB to curl, on the kernel
/// and on Longshore, beside the same nginx on the kernel; each file is verified by its
/// SHA-256, timed, and what crossed between nginx and its engine is counted.
///
/// Needs root, nginx, curl, and 2 GB of room in the directory for temporary files; it takes
/// about a minute. It works in network namespaces of its own and leaves nothing behind.
/// `make demo` builds and runs it.
#[derive(Debug, clap::Parser)]
#[command(name = "longshore-demo", version, max_term_width = 100)]
struct Arguments {}

/// The columns of its table.
const HEADING: [&str; 12] = [
    "file",
    "fetched by",
    "SHA-256",
    "time",
    "Gb/s",
    "kernel to kernel",
    "ratio",
    "transfers",
    "bytes",
    "descriptors",
    "wake-ups",
    "PCI-X cycles",
];

fn main() {
    let Arguments {} = <Arguments as clap::Parser>::parse();
    plain_panics();
    let start = Instant::now();
    println!("Longshore: nginx on a TCP/IP of its own, beside the same nginx on the kernel's.\n");
    let longshore = Testbed::for_measurement(Stack::Longshore);
    let kernel = Testbed::for_measurement(Stack::Kernel);

    say(start, "making files of 1 KB, 64 KB, 512 KB and 1 GB");
    let hashes: Vec<String> = FILES
        .iter()
        .map(|(_, bytes, _)| longshore.payload(&format!("www/{bytes}"), *bytes).1)
        .collect();

    say(
        start,
        "starting nginx: `longshore run -- nginx`, and one on the kernel",
    );
    let files = longshore.path("www");
    let _on_longshore = serve(&longshore, &files);
    let _on_kernel = serve(&kernel, &files);

    let mut table = report::table(&HEADING, 3);
    for (file, hash) in FILES.iter().zip(&hashes) {
        for (who, client) in [
            ("curl on the kernel", longshore.peer()),
            ("curl on Longshore", longshore.host(1)),
        ] {
            let url = format!("http://{}/{}", longshore.host(0).ip(), file.1);
            let name = file.0;
            say(start, &format!("{name} by {who}: verifying"));
            verify(&client, &url, hash);
            say(
                start,
                &format!("{name} by {who}: timing, in turn with the kernel"),
            );
            let timed = time(file, &url, &client, [&longshore.peer(), &kernel.peer()]);
            let before = [name.to_owned(), who.to_owned(), "right".to_owned()];
            table.add_row(before.into_iter().chain(timed));
        }
    }
    say(start, "done");
    println!("\n{table}");
    println!(
        "Times are medians, taken in turn on both stacks; curl discards what it gets. \"kernel to\n\
         kernel\" is the same nginx and curl over veth, all offloads on, CUBIC. The last five columns\n\
         are what one fetch moved between nginx and its engine, both directions together, and the\n\
         cycles that it would take at most on a 64-bit PCI-X bus."
    );
}

/// Fetches a file by `client` and, in turn, from the kernel by the kernel; `peers` are
/// Longshore's, which counts what has crossed, and the kernel's. What the table says of it.
fn time(
    (_, bytes, times): &(&str, u64, usize),
    url: &str,
    client: &Host<'_>,
    peers: [&Host<'_>; 2],
) -> [String; 9] {
    let (mut ours, mut kernels) = (Vec::new(), Vec::new());
    let mut crossed = Crossings::default();
    for _ in 0..*times {
        let before = Crossings::so_far(peers[0]);
        ours.push(fetch(client, url));
        crossed = Crossings::so_far(peers[0]) - before;
        kernels.push(fetch(peers[1], url));
    }
    let seconds = median(&ours).unwrap_or(f64::NAN);
    let rate = gigabits(*bytes, seconds);
    let kernels_rate = gigabits(*bytes, median(&kernels).unwrap_or(f64::NAN));
    // Both directions share the bus, so it does not matter which access it was.
    let cycles = PciX::default()
        .most_cycles(Access::AdapterWrite, &crossed.sums())
        .to_host;
    [
        format!("{} ms", number(seconds * 1e3)),
        number(rate),
        number(kernels_rate),
        format!("{:.2}", rate / kernels_rate),
        crossed.transfers.to_string(),
        crossed.bytes.to_string(),
        crossed.descriptors.to_string(),
        crossed.wakeups.to_string(),
        cycles.to_string(),
    ]
}

fn say(start: Instant, what: &str) {
    println!("[{:5.1} s] {what}", start.elapsed().as_secs_f64());
}

fn serve(bed: &Testbed, files: &Path) -> Proc {
    let nginx = Nginx {
        root: Some(files),
        ..Nginx::default()
    };
    let host = bed.host(0);
    let server = host.cmd("nginx").arg("-c").arg(nginx.config(bed)).spawn();
    bed.peer().wait_for(host.at(80));
    server
}

/// Fetches a file and compares its hash.
fn verify(client: &Host<'_>, url: &str, hash: &str) {
    let said = client
        .sh(&format!(
            "curl --silent --show-error --fail {url} | sha256sum"
        ))
        .check();
    assert!(
        said.starts_with(hash),
        "{url} did not arrive as it is: its SHA-256 is {hash}, but what came has {said}"
    );
}

/// Fetches a file and throws it away; gives the seconds from before the
/// connection to the last byte.
fn fetch(client: &Host<'_>, url: &str) -> f64 {
    let said = client
        .cmd("curl")
        .args([
            "--silent",
            "--show-error",
            "--fail",
            "--output",
            "/dev/null",
        ])
        .args(["--write-out", "%{time_total}", url])
        .check();
    said.trim()
        .parse()
        .unwrap_or_else(|_| panic!("curl should print a time, not {said:?}"))
}

#[expect(clippy::cast_precision_loss, reason = "a rate to show")]
fn gigabits(bytes: u64, seconds: f64) -> f64 {
    bytes as f64 * 8.0 / 1e9 / seconds
}
