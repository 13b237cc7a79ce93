//! Registrations that move between the halves of an instance: when a socket is decided about, and
//! when the kernel's half of one comes or goes.
//!
//! Called where that happens (`decide`, `close`, `bind`).

use super::{BESIDE, Instance, Registered, WAITING, instances, kernel_add, kernel_remove};
use crate::fds::{self, Entry, Undecided};
use crate::real;
use crate::results::borrow;
use crate::user::Out;
use libc::epoll_event;
use longshore_sockets::{ReadySet, Socket, is_confined};
use rustix::io::fcntl_dupfd_cloexec;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::Ordering;

/// A descriptor of an undecided socket was closed or replaced. The kernel drops what is registered
/// for the socket with the last of its descriptors, under whichever that is.
pub(crate) fn close_undecided(closed: Undecided) {
    let stands_for_it =
        |(_, entry)| matches!(entry, Entry::Undecided(u) if u.number == closed.number);
    if WAITING.load(Ordering::Relaxed) != 0 && !fds::all().any(stands_for_it) {
        take_undecided(|r| r.inner == closed.number, |_, _| {});
    }
}

/// A descriptor of an undecided socket is the kernel's from now on.
pub(crate) fn leave_undecided(fd: RawFd, left: Undecided) {
    take_undecided(|r| r.fd == fd && r.inner == left.number, |_, _| {});
}

/// The socket that was `undecided` became the engine's: what was registered for it moves, under
/// whichever of its descriptors, also one that was closed meanwhile.
pub(crate) fn to_engine(undecided: Undecided, socket: &Socket) {
    take_undecided(
        |r| r.inner == undecided.number,
        |instance, r| {
            if let Ok(set) = instance.make_set(socket.host()) {
                instance.move_to_engine(&set, socket, r);
            }
        },
    );
}

/// Takes registrations of undecided sockets out of all instances, and hands them over.
fn take_undecided(is_taken: impl Fn(&Registered) -> bool, to: impl Fn(&Instance, Registered)) {
    if WAITING.load(Ordering::Relaxed) == 0 {
        return;
    }
    for instance in instances() {
        let taken: Vec<Registered> = instance.lists.enter().map_or(Vec::new(), |mut lists| {
            lists.undecided.extract_if(.., |r| is_taken(r)).collect()
        });
        WAITING.fetch_sub(taken.len() as u32, Ordering::Relaxed);
        taken.into_iter().for_each(|r| to(instance, r));
    }
}

/// A socket of the engine's alone stands in both halves from now on: the kernel's half reports it,
/// too, wherever it is registered.
pub(crate) fn enter_kernel(socket: &Socket) {
    for instance in instances() {
        let Some(set) = instance.set() else {
            continue;
        };
        for place in set.places_of(socket) {
            instance.note_both();
            instance.note_once(place.events);
            // Another descriptor may have the number of one that was closed.
            if fds::is_of(place.fd, socket.id()) {
                let (events, fd) = (place.events & BESIDE, place.fd);
                let _ = kernel_add(instance.epfd(), fd, events, place.data);
            }
        }
    }
}

/// A socket that stood in both halves is the engine's alone: the kernel's says nothing of it
/// any more, under none of its descriptors.
pub(crate) fn leave_kernel(socket: &Socket) {
    for instance in instances().filter(|i| i.has_both()) {
        for (fd, _) in fds::all().filter(|(fd, _)| fds::is_of(*fd, socket.id())) {
            instance.take_out(fd);
        }
    }
}

/// Does `work` while a descriptor with this number stands for a socket, where one did that was closed:
/// the kernel knows what is registered by the number and the socket. Another descriptor may have the
/// number by now; then nothing is done.
fn standing_for(socket: &Socket, number: RawFd, work: impl FnOnce()) {
    let is_twin = |(fd, _): &(RawFd, Entry)| fds::is_of(*fd, socket.id());
    let twin = fds::all().find(is_twin).filter(|_| !is_confined());
    let stand_in = twin.and_then(|(fd, _)| fcntl_dupfd_cloexec(borrow(fd), number).ok());
    if stand_in.as_ref().map(AsRawFd::as_raw_fd) == Some(number) {
        work();
    }
}

impl Instance {
    fn move_to_engine(&self, set: &ReadySet, socket: &Socket, r: Registered) {
        if fds::is_of(r.fd, socket.id()) {
            self.leave_beside(socket, r);
        } else {
            standing_for(socket, r.fd, || self.leave_beside(socket, r));
        }
        let _ = if r.disarmed {
            set.add_disarmed(socket, r.fd, r.events, r.data)
        } else {
            set.add(socket, r.fd, r.events, r.data)
        };
    }

    /// What the kernel's half keeps of a registration that moves to the engine's.
    fn leave_beside(&self, socket: &Socket, r: Registered) {
        let stays = socket.has_kernel_side();
        if stays {
            self.note_both();
        }
        if stays && !r.disarmed {
            let mut event = epoll_event {
                events: r.events & BESIDE,
                u64: r.data,
            };
            let change = libc::EPOLL_CTL_MOD;
            real::epoll_ctl(self.epfd(), change, r.fd, Out::from(&mut event));
        } else {
            self.take_out(r.fd);
        }
    }

    /// Takes a descriptor out of the kernel's half.
    pub(crate) fn take_out(&self, fd: RawFd) {
        kernel_remove(self.epfd(), fd);
    }
}
