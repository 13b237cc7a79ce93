//! Bytes that a program has received and that still lie where the engine has placed them: in its
//! pipes ([`pipes`]) and in its memory ([`page_exchange`]). What must happen to both before
//! somebody else could have them is said here once.
//!
//! Called by all calls after which that could be.

use crate::{page_exchange, pipes};
use longshore_hostif::SocketId;
use longshore_sockets::OnlyThread;

/// This process lets go of a descriptor of this socket, or shares it.
#[inline]
pub(crate) fn leave_socket(id: SocketId) {
    pipes::leave_socket(id);
    page_exchange::leave_socket(id);
}

/// This process shares all sockets: another may have what is kept from now on.
pub(crate) fn leave_all() {
    pipes::leave_all();
    page_exchange::leave_all();
}

/// While it lives, nothing is kept.
pub(crate) type Stopped = (Option<pipes::Stopped>, Option<page_exchange::Stopped>);

/// Before a fork: what it returns is to live until after it.
pub(crate) fn before_fork() -> Stopped {
    (pipes::before_fork(), page_exchange::before_fork())
}

/// In the child, whose is what its memory shows.
pub(crate) fn in_child((pipes, memory): Stopped) {
    page_exchange::in_child(memory);
    drop(pipes);
}

/// In a child that was made without our knowing: nothing of its parent's is its own.
pub(crate) fn begin_anew(only: &OnlyThread) {
    pipes::begin_anew(only);
    page_exchange::begin_anew(only);
}

/// The program is going to have a filter of system calls, under which nothing is kept.
pub(crate) fn end() {
    pipes::leave_all();
    page_exchange::end();
}
