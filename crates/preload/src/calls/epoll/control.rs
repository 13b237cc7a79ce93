//! `epoll_create`, `epoll_ctl`: what is registered, and with which half.

use super::own_waits;
use crate::calls::{answer, guard, refused, set_errno};
use crate::epoll::{self, BESIDE, Instance, Registered, of_descriptor};
use crate::fds::{self, Entry};
use crate::lifecycle::give_up;
use crate::user::Out;
use crate::{real, state, vectors};
use libc::{c_int, epoll_event};
use longshore_sockets::{Socket, SocketError};

/// `epoll_create1(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn epoll_create1(flags: c_int) -> c_int {
    let epfd = real::epoll_create1(flags);
    if epfd >= 0 && !state::is_off() {
        return guard(|| {
            own_waits::refuse();
            if let Some(number) = epoll::enter(epfd) {
                give_up(fds::put(epfd, Entry::Epoll(number)));
            }
            epfd
        });
    }
    epfd
}

/// `epoll_create(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn epoll_create(size: c_int) -> c_int {
    if size <= 0 {
        set_errno(libc::EINVAL);
        return -1;
    }
    epoll_create1(0)
}

/// `epoll_ctl(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn epoll_ctl(
    epfd: c_int,
    op: c_int,
    fd: c_int,
    event: Out<'_, epoll_event>,
) -> c_int {
    let plain = || real::epoll_ctl(epfd, op, fd, event);
    let Some(instance) = of_descriptor(epfd) else {
        return plain();
    };
    let needs_event = op != libc::EPOLL_CTL_DEL;
    if needs_event && !vectors::can_be_read(event, size_of::<epoll_event>()) {
        return plain();
    }
    let (events, data) = if needs_event {
        event.get().map_or((0, 0), |e| (e.events, e.u64))
    } else {
        (0, 0)
    };
    let registered = Registered {
        fd,
        events,
        data,
        inner: 0,
        disarmed: false,
    };
    guard(|| match fds::engine(fd) {
        Some(socket) => {
            answer(|| control_socket(instance, epfd, op, &socket, registered).map(|()| 0))
        }
        None => control_other(instance, op, registered, plain),
    })
}

/// As `epoll_ctl`, of a descriptor that is no socket of the engine.
fn control_other(
    instance: &Instance,
    op: c_int,
    registered: Registered,
    plain: impl FnOnce() -> c_int,
) -> c_int {
    let of = |inner| Registered {
        inner,
        ..registered
    };
    match fds::get(registered.fd) {
        Entry::Undecided(undecided) => {
            let result = plain();
            if result == 0 {
                instance.note_undecided(op, of(undecided.number));
            }
            result
        }
        Entry::Epoll(inner) => {
            let result = plain();
            if result == 0 {
                instance.note_nested(op, of(inner));
            }
            result
        }
        Entry::Kept => {
            set_errno(libc::EBADF);
            -1
        }
        // It has just become the engine's, or its engine is gone.
        Entry::Engine(_) => plain(),
        Entry::Kernel => {
            instance.note_kernels();
            plain()
        }
    }
}

/// What goes with EPOLLEXCLUSIVE: adding alone, and some events.
fn check_exclusive(op: c_int, events: u32) -> Result<(), SocketError> {
    const BESIDE_IT: c_int = libc::EPOLLIN
        | libc::EPOLLOUT
        | libc::EPOLLERR
        | libc::EPOLLHUP
        | libc::EPOLLWAKEUP
        | libc::EPOLLET
        | libc::EPOLLEXCLUSIVE;
    let fits = match op {
        libc::EPOLL_CTL_ADD => events & !(BESIDE_IT as u32) == 0,
        libc::EPOLL_CTL_MOD => false,
        _ => true,
    };
    if events & libc::EPOLLEXCLUSIVE as u32 != 0 && !fits {
        return Err(refused(libc::EINVAL));
    }
    Ok(())
}

fn control_socket(
    instance: &Instance,
    epfd: c_int,
    op: c_int,
    socket: &Socket,
    r: Registered,
) -> Result<(), SocketError> {
    check_exclusive(op, r.events)?;
    let set = instance.make_set(socket.host())?;
    match op {
        libc::EPOLL_CTL_ADD => set.add(socket, r.fd, r.events, r.data)?,
        libc::EPOLL_CTL_MOD => set.modify(socket, r.fd, r.events, r.data)?,
        libc::EPOLL_CTL_DEL => set.remove(socket, r.fd)?,
        _ => return Err(refused(libc::EINVAL)),
    }
    if socket.has_kernel_side() {
        instance.note_both();
        instance.note_once(r.events);
        let mut event = epoll_event {
            events: r.events & BESIDE,
            u64: r.data,
        };
        let ctl = |op, event: &mut epoll_event| real::epoll_ctl(epfd, op, r.fd, Out::from(event));
        // A socket that went both ways after it was registered is not there yet.
        if ctl(op, &mut event) != 0 && op == libc::EPOLL_CTL_MOD {
            ctl(libc::EPOLL_CTL_ADD, &mut event);
        }
    }
    Ok(())
}
