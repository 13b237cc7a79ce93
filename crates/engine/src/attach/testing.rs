//! A connection of which a test has the program's end.

use super::{Connection, Disposal, Dispose};
use crate::users::User;
use longshore_hostif::Versions;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

/// The connection of this user at this end.
pub(super) fn connection(fd: OwnedFd, user: Arc<User>, disposal: &Disposal) -> Arc<Connection> {
    Arc::new(Connection {
        fd: Dispose::new(fd, disposal),
        number: 1,
        _share: user.take_connection().unwrap(),
        user,
        speaks: Versions::OURS,
        membership: OnceLock::new(),
        may_be_silent: AtomicBool::new(true),
    })
}
