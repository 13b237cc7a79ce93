//! `setrlimit`, `getrlimit`, `prlimit`: what they say of RLIMIT_AS counts without the memory
//! that is shared with the engine (see `address_space`). All else is the kernel's.

use crate::signals::within;
use crate::state::{self, Mode};
use crate::user::{In, Out};
use crate::{address_space, real};
use libc::{c_int, c_uint, pid_t, rlimit};
use rustix::process::Rlimit;

/// Limits as C has them; no limit is the highest number.
fn of_c(limits: rlimit) -> Rlimit {
    let one = |limit| (limit != libc::RLIM_INFINITY).then_some(limit);
    Rlimit {
        current: one(limits.rlim_cur),
        maximum: one(limits.rlim_max),
    }
}

fn to_c(limits: &Rlimit) -> rlimit {
    rlimit {
        rlim_cur: limits.current.unwrap_or(libc::RLIM_INFINITY),
        rlim_max: limits.maximum.unwrap_or(libc::RLIM_INFINITY),
    }
}

/// Whether these are limits of which the kernel has others than the program: those of the
/// address space, of a process in a session, which it is from now on. The kernel refuses a
/// hard limit below the soft one, as it is.
fn differs(pid: pid_t, resource: c_uint) -> bool {
    let is_own = pid == 0 || pid.unsigned_abs() == std::process::id();
    resource == libc::RLIMIT_AS && is_own && matches!(state::mode(), Mode::On(_))
}

/// `prlimit(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn prlimit(
    pid: pid_t,
    resource: c_uint,
    new: In<'_, rlimit>,
    old: Out<'_, rlimit>,
) -> c_int {
    within(|| {
        if !differs(pid, resource) {
            return real::prlimit(pid, resource, new, old);
        }
        let raised = new.get().map(|new| to_c(&address_space::raised(of_c(new))));
        let new = raised.as_ref().map_or(In::null(), In::from);
        let result = real::prlimit(pid, resource, new, old);
        if let (0, Some(kernels)) = (result, old.get()) {
            old.put(to_c(&address_space::shown(of_c(kernels))));
        }
        result
    })
}

/// `prlimit64(2)`: the same on machines of 64 bits.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn prlimit64(
    pid: pid_t,
    resource: c_uint,
    new: In<'_, rlimit>,
    old: Out<'_, rlimit>,
) -> c_int {
    prlimit(pid, resource, new, old)
}

/// `setrlimit(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn setrlimit(resource: c_uint, new: In<'_, rlimit>) -> c_int {
    if resource == libc::RLIMIT_AS {
        prlimit(0, resource, new, Out::null())
    } else {
        real::setrlimit(resource, new)
    }
}

/// `setrlimit64(2)`: the same on machines of 64 bits.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn setrlimit64(resource: c_uint, new: In<'_, rlimit>) -> c_int {
    setrlimit(resource, new)
}

/// `getrlimit(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn getrlimit(resource: c_uint, old: Out<'_, rlimit>) -> c_int {
    if resource == libc::RLIMIT_AS {
        prlimit(0, resource, In::null(), old)
    } else {
        real::getrlimit(resource, old)
    }
}

/// `getrlimit64(2)`: the same on machines of 64 bits.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn getrlimit64(resource: c_uint, old: Out<'_, rlimit>) -> c_int {
    getrlimit(resource, old)
}
