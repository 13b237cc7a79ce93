//! A session of an engine in the hands of somebody who respects nothing: the host's half of
//! the interface, and every word of the memory behind it.

use longshore_hostif::attach::{Message, Token, join, new_session, send};
use longshore_hostif::{
    Address, Arena, BlockFlags, ChannelControl, Completion, EdgeFlags, Geometry, Header,
    HostChannel, OpenFlags, RING, Request, SocketBlock, SocketId, SocketKind, SocketState,
};
use longshore_ring::{Doorbell, SharedMemory};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Becomes the user that nobody is.
pub(crate) fn become_nobody() {
    const NOBODY: u32 = 65_534;
    // SAFETY: no other thread is there yet, and the arguments are numbers.
    let done = unsafe {
        libc::setgroups(0, std::ptr::null()) == 0
            && libc::setresgid(NOBODY, NOBODY, NOBODY) == 0
            && libc::setresuid(NOBODY, NOBODY, NOBODY) == 0
    };
    assert!(done, "{}", std::io::Error::last_os_error());
}

/// Where things lie in the memory, in bytes from its beginning.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Places {
    pub(crate) controls: usize,
    pub(crate) waiters: usize,
    pub(crate) socket_links: usize,
    pub(crate) held: usize,
    pub(crate) requests: usize,
    pub(crate) blocks: usize,
    pub(crate) snd_directories: usize,
    pub(crate) rcv_directories: usize,
    /// Where the slabs begin, which hold payload alone.
    pub(crate) slabs: usize,
}

/// A session, and a process in it.
pub(crate) struct Guest {
    pub(crate) arena: Arc<Arena>,
    pub(crate) channel: HostChannel,
    pub(crate) doorbell: Doorbell,
    pub(crate) connection: OwnedFd,
    pub(crate) launcher: OwnedFd,
    pub(crate) token: Token,
    pub(crate) at: Places,
    raw: SharedMemory,
    tag: u32,
}

impl Guest {
    /// Opens a session and joins it; `None` if the engine does not let it.
    pub(crate) fn come(engine: &Path) -> Option<Self> {
        let (launcher, token) = new_session(engine, Default::default()).ok()?;
        let joined = join(engine, token).ok()?;
        let raw = joined.arena.try_clone().ok()?;
        let len = rustix::fs::fstat(&raw).ok()?.st_size as usize;
        let raw = SharedMemory::open(raw, len).ok()?;
        let arena = Arc::new(Arena::open(joined.arena, joined.geometry).ok()?);
        Some(Self {
            channel: HostChannel::new(arena.clone(), joined.channel),
            at: places(&arena, &joined.geometry),
            arena,
            doorbell: Doorbell::from_fd(joined.doorbell),
            connection: joined.connection,
            launcher,
            token,
            raw,
            tag: 0,
        })
    }

    /// A word of the memory, by its place in bytes.
    pub(crate) fn word(&self, at: usize) -> &AtomicU64 {
        self.raw.at(at & !7)
    }

    pub(crate) fn header(&self) -> &Header {
        self.arena.header()
    }

    /// Says something over the connection.
    pub(crate) fn say(&self, message: &Message) -> bool {
        send(self.connection.as_fd(), message, &[]).is_ok()
    }

    /// Rings, whether or not the engine sleeps.
    pub(crate) fn ring_doorbell(&self) {
        self.channel.flag();
        self.doorbell.ring();
    }

    /// Publishes what is staged.
    pub(crate) fn publish(&mut self) {
        self.channel.publish(&self.doorbell, true);
    }

    /// Takes what the engine has said, and forgets it.
    pub(crate) fn drain(&mut self) {
        for _ in 0..2 * RING {
            match self.channel.get() {
                Ok(Some(Some(Completion::More))) => {
                    self.channel.release();
                    self.channel.ask_for_more(&self.doorbell);
                }
                Ok(Some(_)) => {}
                _ => break,
            }
        }
        self.channel.release();
    }

    /// Puts a request, and waits for room for it; `false` if there is none for long.
    pub(crate) fn put(&mut self, request: &Request, until: Instant) -> bool {
        while self.channel.put(request).is_err() {
            self.publish();
            self.drain();
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        true
    }

    /// The next tag.
    pub(crate) fn tag(&mut self) -> u32 {
        self.tag = self.tag.wrapping_add(1);
        self.tag
    }

    /// Puts a request that is answered and waits for the answer: errno, value, address.
    pub(crate) fn call(
        &mut self,
        request: impl FnOnce(u32) -> Request,
        until: Instant,
    ) -> Option<(u16, u64, Address)> {
        let asked = self.tag();
        if !self.put(&request(asked), until) {
            return None;
        }
        self.publish();
        while Instant::now() < until {
            while let Ok(Some(said)) = self.channel.get() {
                if let Some(Completion::Done {
                    tag,
                    errno,
                    value,
                    address,
                    ..
                }) = said
                    && tag == asked
                {
                    self.channel.release();
                    return Some((errno, value, address));
                }
            }
            self.channel.release();
            std::thread::sleep(Duration::from_micros(20));
        }
        None
    }

    /// A new socket, as the socket library makes one.
    pub(crate) fn open(&mut self, kind: SocketKind, until: Instant) -> Option<SocketId> {
        let links = self.arena.socket_links();
        let index = self.header().free_sockets.pop(links).ok()??;
        let block = self.arena.get_block(index)?;
        let generation = block.begin(SocketState::Open, BlockFlags::empty());
        let socket = SocketId { index, generation };
        self.arena.set_held(self.channel.index(), index, true);
        let flags = OpenFlags::empty();
        self.put(
            &Request::Open {
                socket,
                kind,
                flags,
            },
            until,
        )
        .then_some(socket)
    }

    /// Binds it; the errno.
    pub(crate) fn bind(
        &mut self,
        socket: SocketId,
        local: SocketAddr,
        until: Instant,
    ) -> Option<u16> {
        let bind = |tag| Request::Bind {
            socket,
            tag,
            waiter: None,
            local: local.into(),
        };
        self.call(bind, until).map(|(errno, ..)| errno)
    }

    pub(crate) fn listen(&mut self, socket: SocketId, backlog: u32, until: Instant) -> Option<u16> {
        let listen = |tag| Request::Listen {
            socket,
            tag,
            waiter: None,
            backlog,
        };
        self.call(listen, until).map(|(errno, ..)| errno)
    }

    /// Moves its edges.
    pub(crate) fn edges(&mut self, socket: SocketId, snd: u64, rcv: u64, until: Instant) -> bool {
        let request = Request::Edges {
            socket,
            snd_edge: snd,
            rcv_consumed: rcv,
            flags: EdgeFlags::PUSH,
            immediate: 0,
        };
        self.put(&request, until)
    }

    pub(crate) fn close(&mut self, socket: SocketId, until: Instant) -> bool {
        self.arena
            .set_held(self.channel.index(), socket.index, false);
        let request = Request::Close {
            socket,
            snd_edge: 0,
            rcv_consumed: 0,
            linger: None,
        };
        self.put(&request, until)
    }
}

fn places(arena: &Arena, g: &Geometry) -> Places {
    let base = std::ptr::from_ref(arena.header()) as usize;
    let of = |at: usize| at - base;
    let page = |at: usize| at.next_multiple_of(4096);
    let held = of(arena.held(0).as_ptr() as usize);
    let rcv_directories = of(std::ptr::from_ref(arena.rcv_directory(0).entry(0)) as usize);
    let sockets = g.sockets as usize;
    Places {
        controls: of(std::ptr::from_ref::<ChannelControl>(arena.control(0)) as usize),
        waiters: of(arena.waiters().as_ptr() as usize),
        socket_links: of(arena.socket_links().as_ptr() as usize),
        held,
        requests: page(held + g.channels as usize * sockets / 8),
        blocks: of(std::ptr::from_ref::<SocketBlock>(arena.block(0)) as usize),
        snd_directories: of(std::ptr::from_ref(arena.snd_directory(0).entry(0)) as usize),
        rcv_directories,
        slabs: page(rcv_directories + sockets * longshore_hostif::DIRECTORY * 4),
    }
}

/// Whoever looks at the words.
pub(crate) fn store(word: &AtomicU64, value: u64) {
    word.store(value, Ordering::Relaxed);
}
