//! `exec`: the new image finds the sockets that it inherited, when the shim is
//! loaded into it.

#[cfg(target_arch = "x86_64")]
use crate::calls::own_calls;
use crate::calls::{fork, newcomers};
use crate::environment::{self, Holds};
use crate::state::{self, Mode};
use crate::{calls, decide};
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
        #[cfg(target_arch = "x86_64")]
        own_calls::begin();
        let holds = environment::take_holds();
        let inherited: Vec<RawFd> = open_descriptors()
            .filter(|fd| newcomers::inet_domain(*fd).is_some())
            .collect();
        if inherited.is_empty() && holds == Holds::Nothing {
            return;
        }
        if let Mode::On(host) = state::mode() {
            // First: should this process be killed meanwhile, the engine knows whom it was for.
            if let Holds::Reserved(name) = holds {
                host.be_child_of(name);
            }
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
