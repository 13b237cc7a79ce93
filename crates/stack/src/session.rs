//! What the stack has of a session: its half of the interface, and which of its blocks are
//! sockets here. Its processes are not known here; the engine has them.

use crate::account::{Account, SocketShare};
use crate::forwards::Forwards;
use crate::returns::Returns;
use crate::turns::Of;
use longshore_hostif::SocketId;
use longshore_hostif::adapter::AdapterSession;
use longshore_tcp::Congestion;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Chunks that must be free for connections to have what their buffers allow: what a whole
/// receive buffer could need beyond what it has. With fewer, windows are narrowed, and these are
/// for what is on its way.
pub(crate) const SPARE_CHUNKS: u32 = longshore_hostif::DIRECTORY as u32;
/// Chunks among them that are kept for connections of which nearly all has been read, so that a
/// program that reads one to its end is not held up by others that nobody reads.
pub(crate) const KEPT_CHUNKS: u32 = SPARE_CHUNKS / 4;
/// Chunks that a segment needs where all before it is there, or nothing was before it.
pub(crate) const FEW_CHUNKS: u32 = 2;

/// Threads and poll sets of one session that are woken in one turn.
const WAKEUPS_A_TURN: usize = 32;

/// The sockets of one session.
#[derive(Debug)]
pub struct Session {
    /// Its half of the interface.
    pub host: AdapterSession,
    /// The user it belongs to.
    pub uid: u32,
    /// What that one has of the stack; none where users have no bounds.
    pub account: Option<Arc<Account>>,
    /// The congestion control that its launcher wants for new sockets.
    pub congestion: Option<Congestion>,
    /// One more than the key of each of its sockets, by the block's index; 0 where there is
    /// none, so that a page of it takes memory with its first socket.
    by_index: Vec<u32>,
    /// Sockets that it has here, with a block.
    sockets: usize,
    /// Sockets that have their turn again, as their user has had its share of one.
    pub(super) postponed: VecDeque<u32>,
    /// It was said that its receive slab is full.
    pub(super) was_full: bool,
    pub(super) returns: Returns,
    pub(super) forwards: Forwards,
    /// It is on the list of those to be published.
    pub(super) is_touched: bool,
    /// Its programs ring when they publish requests: it is not polled.
    pub is_parked: bool,
    /// Its sockets were taken out, and what they had in memory is not given back.
    is_condemned: bool,
    /// The last turn in which something was asked or done.
    pub(super) active_in: u64,
}

impl Session {
    /// A session of user `uid` without sockets.
    pub fn new(host: AdapterSession, uid: u32) -> Self {
        Self {
            by_index: vec![0; host.geometry().sockets as usize],
            host,
            uid,
            account: None,
            congestion: None,
            sockets: 0,
            postponed: VecDeque::new(),
            was_full: false,
            returns: Returns::default(),
            forwards: Forwards::default(),
            is_touched: false,
            is_parked: false,
            is_condemned: false,
            active_in: 0,
        }
    }

    /// Its programs find their engine gone: it says so, and wakes those that sleep in the turns
    /// that come. It can be done again, should a panic have left it half done.
    pub fn end(&mut self) {
        self.host.header().mark_closed();
        #[cfg(all(any(test, feature = "testing"), not(feature = "counted")))]
        crate::testing::session_ends();
        self.host.wakeups.note_everybody();
    }

    /// Sockets that it has here, with a block.
    pub fn sockets(&self) -> usize {
        self.sockets
    }

    /// The key of the socket whose block has this index, if there is one.
    pub fn key(&self, index: u32) -> Option<u32> {
        self.by_index
            .get(index as usize)
            .and_then(|place| place.checked_sub(1))
    }

    /// Enters a socket; `false` if its index is taken or does not exist.
    pub(super) fn enter(&mut self, id: SocketId, key: u32) -> bool {
        match self.by_index.get_mut(id.index as usize) {
            Some(place) if *place == 0 && !self.is_condemned => {
                *place = key + 1;
                self.sockets += 1;
                self.host.meter.begin(id);
                true
            }
            _ => false,
        }
    }

    /// Forgets a socket.
    pub(super) fn leave(&mut self, id: SocketId) {
        if let Some(place) = self.by_index.get_mut(id.index as usize)
            && *place != 0
        {
            *place = 0;
            self.sockets -= 1;
            self.host.owners().forget(id.index);
            self.host.meter.end(id.index);
        }
    }

    /// Counts one socket more among those of its user, if that has bounds; `None` if that
    /// may have no more.
    pub(super) fn take_socket_share(&self) -> Option<Option<SocketShare>> {
        match &self.account {
            Some(account) => account.take_socket().map(Some),
            None => Some(None),
        }
    }

    /// Its sockets were taken out as they were.
    pub(super) fn condemn(&mut self) {
        self.is_condemned = true;
        self.by_index.fill(0);
        self.sockets = 0;
        self.returns = Returns::default();
    }

    /// Whether its sockets were taken out.
    pub fn is_condemned(&self) -> bool {
        self.is_condemned
    }

    /// Blocks that there are, those that are no sockets among them.
    pub fn blocks(&self) -> u32 {
        self.by_index.len() as u32
    }

    /// Those of these blocks that are sockets.
    pub fn sockets_among(&self, blocks: Range<u32>) -> Vec<u32> {
        let places = blocks.start as usize..blocks.end as usize;
        let places = self.by_index.get(places).into_iter().flatten();
        blocks
            .zip(places)
            .filter(|(_, place)| **place != 0)
            .map(|(index, _)| index)
            .collect()
    }

    /// Takes a block for a connection that is handed over to its host, if one is free.
    pub(super) fn take_block(&mut self) -> Option<SocketId> {
        let used = &self.by_index;
        let is_used = |index: u32| used.get(index as usize).is_some_and(|place| *place != 0);
        self.host.blocks().take(is_used)
    }

    /// Shows its programs what was put, and wakes those that sleep, as many as a turn may.
    /// Says whether others are still to be woken: they have to wait for the next turn.
    pub(super) fn publish(&mut self, turn: u64) -> bool {
        if !self.host.publish() {
            return false;
        }
        let left = |account: &Arc<Account>| account.spent.left(Of::Wakeups, turn) as usize;
        let most = self.account.as_ref().map_or(WAKEUPS_A_TURN, left);
        let woken = self.host.wake(most.min(WAKEUPS_A_TURN));
        if let Some(account) = &self.account {
            account.spent.spend(Of::Wakeups, turn, woken as u32);
        }
        self.host.owes_wakeups()
    }
}
