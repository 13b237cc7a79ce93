//! A second process of a session, which comes as a child of `fork` does, in the hands of the test.

use super::Host;
use longshore_hostif::{ChannelState, HostChannel};
use std::process::{Child, Command};
use std::sync::atomic::Ordering;

/// Another process of the session, which this one speaks for.
pub(crate) struct Second {
    pub(crate) channel: HostChannel,
    process: Child,
}

impl Second {
    /// As a child of a fork comes.
    pub(crate) fn join(host: &Host) -> Self {
        let process = Command::new("sleep").arg("600").spawn().unwrap();
        let arena = host.arena.clone();
        let index = host.channel.index() + 1;
        let control = arena.control(index);
        assert!(control.change_state(ChannelState::Free, ChannelState::Claimed));
        control.reset();
        control.pid.store(process.id(), Ordering::Release);
        Self {
            channel: HostChannel::new(arena, index),
            process,
        }
    }
}

impl Drop for Second {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
