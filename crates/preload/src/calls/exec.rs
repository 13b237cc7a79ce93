//! `exec`: the new image finds the sockets that it inherited, when the shim is
//! loaded into it.

use crate::calls::{fork, newcomers};
use crate::state::{self, Mode};
use crate::{calls, decide, environment};
use std::os::fd::RawFd;

/// Descriptors to look at where /proc is not there.
const FIRST: RawFd = 1024;

#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = at_start;

extern "C" fn at_start() {
    let _ = std::panic::catch_unwind(|| {
        if state::is_off() {
            return;
        }
        fork::install();
        let holds = std::env::var_os(environment::HELD_VARIABLE).is_some();
        if holds {
            // SAFETY: the program has not begun, so nobody else uses its environment.
            unsafe { std::env::remove_var(environment::HELD_VARIABLE) };
        }
        let inherited: Vec<RawFd> = open_descriptors()
            .filter(|fd| newcomers::inet_domain(*fd).is_some())
            .collect();
        if inherited.is_empty() && !holds {
            return;
        }
        if let Mode::On(host) = state::mode() {
            for fd in inherited {
                if !decide::inherit(host, fd) {
                    newcomers::note(fd);
                }
            }
            host.sockets().drop_unused();
            calls::stdio::at_start();
        }
    });
}

/// The numbers of all open descriptors.
fn open_descriptors() -> Box<dyn Iterator<Item = RawFd>> {
    let listed: Option<Vec<RawFd>> = std::fs::read_dir("/proc/self/fd").ok().map(|dir| {
        let names = dir.filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok());
        names.collect()
    });
    match listed {
        Some(fds) => Box::new(fds.into_iter()),
        None => Box::new(0..FIRST),
    }
}
