//! Capabilities of this thread, and of those that it will start (capabilities(7)).

use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

/// Capabilities have numbers below this; Linux has 41 of them.
const MOST: libc::c_ulong = 64;

/// Keeps of these those that there are, and gives all others up for good: the bounding set
/// and the ambient set become empty, too, where that is permitted. Says what is kept.
pub(super) fn keep(wanted: CapabilitySet) -> Result<CapabilitySet, Errno> {
    let had = capabilities(None)?;
    // Needs CAP_SETPCAP. Without it the set means nothing, since no program can be executed
    // with more than there is: no_new_privs is set.
    for number in 0..MOST {
        // SAFETY: the call takes a number and touches no memory.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, number, 0, 0, 0) };
    }
    // SAFETY: the call takes numbers and touches no memory. Linux before 4.3 has no such set.
    unsafe {
        libc::prctl(
            libc::PR_CAP_AMBIENT,
            libc::PR_CAP_AMBIENT_CLEAR_ALL,
            0,
            0,
            0,
        )
    };
    let kept = had.permitted & wanted;
    let sets = CapabilitySets {
        effective: kept,
        permitted: kept,
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, sets)?;
    Ok(kept)
}

/// Their names, as in capabilities(7).
pub(super) fn names(set: CapabilitySet) -> String {
    let name = |(name, _): (&str, CapabilitySet)| format!("CAP_{name}");
    set.iter_names().map(name).collect::<Vec<_>>().join(", ")
}
