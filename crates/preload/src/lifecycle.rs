//! What follows when a descriptor is closed, replaced or duplicated, for what stands behind it.

use crate::fds::{self, Entry};
use crate::{epoll, kept, place};
use longshore_sockets::Socket;
use std::os::fd::RawFd;

/// Notes that `to` is a duplicate of `from` from now on, and gives up what `to`
/// was.
pub(crate) fn duplicate(from: RawFd, to: RawFd) {
    let entry = match fds::get(from) {
        Entry::Engine(id) => match fds::engine(from) {
            Some(socket) => {
                let _ = socket.into_use();
                Entry::Engine(id)
            }
            None => Entry::Kernel,
        },
        Entry::Undecided(_) => fds::duplicate_undecided(from).unwrap_or(Entry::Kernel),
        Entry::Epoll(number) => {
            epoll::another_descriptor(number);
            Entry::Epoll(number)
        }
        Entry::Kept | Entry::Kernel => Entry::Kernel,
    };
    let before = fds::put(to, entry);
    if matches!(entry, Entry::Engine(_)) && !fds::has_room_for(to) {
        give_up(entry);
    }
    give_up(before);
}

/// Lets go of what a descriptor was that is closed or replaced.
pub(crate) fn give_up(entry: Entry) {
    match entry {
        Entry::Engine(id) => {
            kept::leave_socket(id);
            if let Some(host) = place::attached() {
                drop(Socket::from_use(host, id));
            }
        }
        Entry::Epoll(number) => epoll::one_descriptor_less(number),
        Entry::Undecided(closed) => epoll::close_undecided(closed),
        Entry::Kernel | Entry::Kept => {}
    }
}
