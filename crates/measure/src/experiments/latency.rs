//! The latency of datagrams by their size, as Fig. 6 of the 1999 paper has it: half of what it
//! takes to send one there and have it back.

use super::ns_each;
use crate::crossing::running::{Place, Running, scratch_directory};
use crate::crossing::web;
use crate::experiment::{
    Axis, Cell, Chart, ExperimentError, Kind, Outcome, Series, Sheet, Spread, progress, system,
};
use crate::installed;
use std::ffi::OsString;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::time::Duration;

/// Its name on the command line.
pub const NAME: &str = "latency";
const PAPER: &str = "Gallatin, Chase, Yocum, Trapeze/IP: TCP/IP at Near-Gigabit Speeds, USENIX \
                     1999";
const PORT: u16 = 7;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often the server may not be there yet.
const TRIES: u32 = 1000;

/// Bytes of datagrams: the figure's.
fn sizes(quick: bool) -> Vec<usize> {
    let all = [1].into_iter().chain((1..=8).map(|kb| kb << 10));
    all.filter(|size| !quick || [1, 1024, 8192].contains(size))
        .collect()
}

/// Measures both stacks in turn. The process must be in a network namespace of its own, in
/// which it may make devices.
///
/// # Errors
/// [`ExperimentError`].
pub fn measure(longshore: &Path, quick: bool) -> Result<Outcome, ExperimentError> {
    let mut outcome = Outcome::new(NAME, PAPER, quick);
    let (runs, times) = if quick { (2, 200) } else { (5, 4_000) };
    let sizes = sizes(quick);
    let mut ours = vec![Vec::new(); sizes.len()];
    let mut kernels = ours.clone();
    for run in 1..=runs {
        progress(&format!("latency: run {run} of {runs}"));
        let directory = scratch_directory()?;
        let place = Place {
            longshore,
            directory: directory.path(),
            captures: false,
        };
        let options = ["--addr", web::ADDRESS].map(OsString::from);
        let command = installed::own(longshore, &["datagram-echo", "0.0.0.0:7"]);
        let server = Running::quietly(&place, &options, &command)?;
        one_way(
            SocketAddr::from((web::SERVER.0, PORT)),
            &sizes,
            times,
            &mut ours,
        )?;
        drop(server);
        let socket = UdpSocket::bind("127.0.0.1:0").map_err(system("make a socket"))?;
        let at = socket.local_addr().map_err(system("make a socket"))?;
        // It ends with this process.
        std::thread::spawn(move || crate::programs::answer_datagrams(&socket));
        one_way(at, &sizes, times, &mut kernels)?;
    }
    progress("");
    let mut sheet = Sheet::new(
        "latency",
        "Fig. 6: one-way latency of UDP, half of a round trip",
        &Spread::basis(runs),
        &[
            ("size", "bytes"),
            ("Longshore", "us"),
            ("kernel, loopback", "us"),
        ],
    );
    for ((size, ours), kernel) in sizes.iter().zip(&ours).zip(&kernels) {
        sheet.row([
            Cell::Count(*size as u64),
            Spread::of(ours).into(),
            Spread::of(kernel).into(),
        ]);
    }
    outcome.sheets.push(sheet);
    outcome.left_out.extend([
        "adaptive message pipelining on and off: no transport here overlaps transfers on a bus \
         with those on a wire"
            .to_owned(),
        "with and without checksums: where a datagram stays on the machine nobody makes them"
            .to_owned(),
    ]);
    Ok(outcome)
}

/// Adds the microseconds of one way for each size.
fn one_way(
    server: SocketAddr,
    sizes: &[usize],
    times: u32,
    figures: &mut [Vec<f64>],
) -> Result<(), ExperimentError> {
    let fail = || system(format!("exchange datagrams with {server}"));
    let socket = UdpSocket::bind("0.0.0.0:0").map_err(fail())?;
    let mut room = vec![0; 65_536];
    // It may not serve yet.
    socket
        .set_read_timeout(Some(Duration::from_millis(10)))
        .map_err(fail())?;
    let mut answer = Ok(0);
    for _ in 0..TRIES {
        // Nor may there be a way to it.
        let connected = socket.connect(server).and_then(|()| socket.send(b"?"));
        answer = connected.and_then(|_| socket.recv(&mut room));
        if answer.is_ok() {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    answer.map_err(fail())?;
    socket.set_read_timeout(Some(PATIENCE)).map_err(fail())?;
    for (size, figures) in sizes.iter().zip(figures) {
        let message = vec![b'm'; *size];
        let mut result = Ok(0);
        let ns = ns_each(times, || {
            if result.is_ok() {
                result = socket.send(&message).and_then(|_| socket.recv(&mut room));
            }
        });
        result.map_err(fail())?;
        figures.push(ns / 2e3);
    }
    Ok(())
}

/// Fig. 6.
#[must_use]
pub fn charts(outcome: &Outcome) -> Vec<Chart> {
    let chart = |sheet: &Sheet| Chart {
        title: "One-way latency of UDP (Fig. 6)".to_owned(),
        x: Axis::linear("bytes"),
        y: Axis::linear("us"),
        kind: Kind::Lines,
        series: ["Longshore", "kernel, loopback"]
            .map(|stack| Series::new(stack, sheet.points("size", stack)))
            .into(),
    };
    outcome.sheet("latency").map(chart).into_iter().collect()
}
