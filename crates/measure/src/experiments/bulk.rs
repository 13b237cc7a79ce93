//! Bulk over one connection between a program on Longshore and one of the kernel, for
//! experiments that watch it: [`super::sweep`], [`super::cpu`] and [`super::characterize`].

use super::beside::Beside;
use crate::crossing::running::{Place, Running, scratch_directory};
use crate::crossing::web;
use crate::experiment::{ExperimentError, progress};
use crate::installed;
use longshore_sockets::SPIN_VARIABLE;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::Path;

/// The papers of [`super::sweep`] and [`super::cpu`].
pub(super) const PAPERS: &str = "Chase, Gallatin, Yocum, End-System Optimizations for High-Speed TCP, IEEE \
     Communications Magazine, 2001; Gallatin, Chase, Yocum, Trapeze/IP, USENIX 1999";
const PORT: u16 = 5001;
/// What is to be said where [`ENGINE_CUTS`] is used.
pub(super) const ENGINE_CUTS_BY: &str = "a port without offloading: one that makes faults, and is told to make none, stands in its \
     place; it copies each frame that comes once more";

/// Options by which the engine cuts packets and makes checksums, and not the port: faults that
/// never come.
pub(super) const ENGINE_CUTS: &[&str] = &["--fault", "loss=0"];

/// The program that moves the bytes, and in which direction.
pub(super) struct Bulk<'a> {
    pub(super) longshore: &'a Path,
    /// The program on Longshore, and the kernel's at the far end.
    pub(super) programs: [&'static str; 2],
    /// Whether the program is written for Longshore.
    pub(super) native: bool,
    /// Bytes of a call of the program, if it is not to choose.
    pub(super) size: Option<usize>,
    pub(super) mtu: u32,
    /// More options of `longshore run`.
    pub(super) options: &'a [&'a str],
    /// Whether the program sleeps at once where it has to wait, so that it is woken for all that
    /// comes, and does not look for a while.
    pub(super) sleeps: bool,
    pub(super) milliseconds: u32,
}

/// A [`Bulk`] whose program waits for its far end.
pub(super) struct Waiting<'a> {
    bulk: &'a Bulk<'a>,
    pub(super) running: Running<'a>,
}

impl Bulk<'_> {
    /// Starts the program, and gives it to `body`.
    pub(super) fn with<T>(
        &self,
        body: impl FnOnce(&Waiting<'_>) -> Result<T, ExperimentError>,
    ) -> Result<T, ExperimentError> {
        let directory = scratch_directory()?;
        let place = Place {
            longshore: self.longshore,
            directory: directory.path(),
            captures: false,
        };
        let mtu = self.mtu.to_string();
        // CUBIC on both sides, as the kernel's program chooses: the machine's default may be
        // another.
        let usual = [
            "--congestion",
            "cubic",
            "--addr",
            web::ADDRESS,
            "--mtu",
            &mtu,
        ];
        let options: Vec<OsString> = usual
            .iter()
            .chain(self.options)
            .map(OsString::from)
            .collect();
        let mut command: Vec<OsString> = Vec::new();
        if self.sleeps {
            command.extend(["env".to_owned(), format!("{SPIN_VARIABLE}=0")].map(OsString::from));
        }
        if self.native {
            // The shim is for programs that know nothing of Longshore.
            command.extend(["env", "-u", "LD_PRELOAD"].map(OsString::from));
        }
        let at = format!("0.0.0.0:{PORT}");
        command.extend(installed::own(self.longshore, &[self.programs[0], &at]));
        command.extend(self.size.map(|size| size.to_string().into()));
        let mut running = Running::quietly(&place, &options, &command)?;
        running.wait_until_served(SocketAddr::from((web::SERVER.0, PORT)))?;
        body(&Waiting {
            bulk: self,
            running,
        })
    }
}

/// Does `body` with each of these, whose names are shown meanwhile, so many times in turn; what
/// each gave.
pub(super) fn in_turn<T>(
    experiment: &str,
    runs: u32,
    bulks: &[(String, Bulk<'_>)],
    mut body: impl FnMut(&Waiting<'_>) -> Result<T, ExperimentError>,
) -> Result<Vec<Vec<T>>, ExperimentError> {
    let mut all: Vec<Vec<T>> = Vec::new();
    all.resize_with(bulks.len(), Vec::new);
    for run in 1..=runs {
        for ((name, bulk), gave) in bulks.iter().zip(&mut all) {
            progress(&format!("{experiment}: {name}, run {run} of {runs}"));
            gave.push(bulk.with(&mut body)?);
        }
    }
    progress("");
    Ok(all)
}

impl Waiting<'_> {
    /// Runs the far end; Gb/s.
    pub(super) fn rate(&self) -> Result<f64, ExperimentError> {
        let server = SocketAddr::from((web::SERVER.0, PORT));
        let milliseconds = self.bulk.milliseconds.to_string();
        let words = [self.bulk.programs[1], &server.to_string(), &milliseconds];
        Beside::program(self.bulk.longshore, &words)?.figure()
    }
}
