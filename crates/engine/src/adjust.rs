//! What of an engine's set-up can be changed while it runs, and the handle by which other
//! threads change it, or have the engine stop.
//!
//! The program that runs an engine has its [`Handle`]; `longshore engine` uses it when signals
//! come. Orders wait in a channel, and the engine takes them when it next looks at its
//! descriptors.

use crate::UserLimits;
use crate::control::{ControlReply, ControlRequest};
use crate::kernel::Kernel;
use crate::sysctl::HostSettings;
use crate::{Engine, EngineError};
use longshore_hostif::adapter::Batching;
use longshore_hostif::{Geometry, Versions};
use longshore_stack::{Access, TimedRule};
use longshore_tcp::{Congestion, EcnMode};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Settings that hold from the moment at which the engine gets them: sockets, sessions and
/// connections that are there keep what they began with.
#[derive(Debug)]
pub struct Adjustable {
    /// The users whose programs may use the engine; empty for everybody who can open the
    /// socket. Programs that use it already go on.
    pub users: Vec<u32>,
    /// How much each new session can have of everything.
    pub geometry: Geometry,
    /// What the sessions of each ordinary user who comes may have together.
    pub user_limits: UserLimits,
    /// How long connections may go on after the engine was asked to stop.
    pub grace: Duration,
    /// The host's settings, which new sockets start from; none for Longshore's own.
    pub host_settings: Option<HostSettings>,
    /// Explicit congestion notification for new sockets, in place of the host's setting.
    pub ecn: Option<EcnMode>,
    /// The rules by which users reach addresses; connections that are there go on.
    pub access: Access,
    /// The congestion control of new sockets, in place of the host's setting; a session's
    /// own comes before it.
    pub congestion: Option<Congestion>,
    /// New sockets tell their peers of the time that TCP_USER_TIMEOUT sets, and go by what
    /// those tell of theirs where it is not set (RFC 5482).
    pub user_timeout_option: bool,
    /// What programs bind to the wildcard is bound on the kernel, too, unless the launcher
    /// of a session has said which it wants.
    pub kernel_too: bool,
    /// How descriptors of sessions that begin then are batched; none for as they are of use.
    pub batching: Option<Batching>,
    /// How the messages of connections end that are accepted at these ports from then on, if
    /// their programs do not say.
    pub messages: BTreeMap<u16, TimedRule>,
    /// For how many milliseconds connections to these ports wait for data from then on, before
    /// they are handed to their listeners all the same.
    pub accept_on_data: BTreeMap<u16, u32>,
}

impl Adjustable {
    /// The mode of ECN that net.ipv4.tcp_ecn has this number for.
    ///
    /// # Errors
    /// [`EngineError::Ecn`] if there is no such mode.
    pub fn ecn_mode(number: u8) -> Result<EcnMode, EngineError> {
        EcnMode::from_number(number).ok_or(EngineError::Ecn(number))
    }
}

/// What another thread wants of a running engine.
#[derive(Debug)]
enum Order {
    Stop,
    Adjust(Box<Adjustable>),
    /// To be answered as the control socket's questions of the engine's own user are.
    Ask(ControlRequest, Sender<ControlReply>),
}

/// Gives orders to a running engine, from another thread.
#[derive(Debug, Clone)]
pub struct Handle {
    orders: Sender<Order>,
    wake: Arc<OwnedFd>,
}

impl Handle {
    /// Asks the engine to drain and then to end.
    pub fn stop(&self) {
        self.order(Order::Stop);
    }

    /// Gives the engine other settings.
    pub fn adjust(&self, settings: Adjustable) {
        self.order(Order::Adjust(Box::new(settings)));
    }

    /// Asks the engine what `longshore stat` and `longshore ss` ask. None if it is gone, or
    /// does not answer within `timeout`.
    pub fn ask(&self, request: ControlRequest, timeout: Duration) -> Option<ControlReply> {
        let (answers, answer) = channel();
        self.order(Order::Ask(request, answers));
        answer.recv_timeout(timeout).ok()
    }

    fn order(&self, order: Order) {
        // An engine that is gone takes no orders.
        if self.orders.send(order).is_ok() {
            let _ = rustix::io::write(self.wake.as_fd(), &1u64.to_ne_bytes());
        }
    }
}

/// The engine's end of its handles.
#[derive(Debug)]
pub(crate) struct Orders {
    handle: Handle,
    waiting: Receiver<Order>,
}

impl Orders {
    pub(crate) fn new() -> Result<Self, Errno> {
        use rustix::event::{EventfdFlags, eventfd};
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (orders, waiting) = channel();
        Ok(Self {
            handle: Handle {
                orders,
                wake: Arc::new(wake),
            },
            waiting,
        })
    }

    /// Readable when an order waits.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.handle.wake.as_fd()
    }
}

impl Engine {
    /// A handle on this engine.
    pub fn handle(&self) -> Handle {
        self.orders.handle.clone()
    }

    /// From now on, these settings hold.
    pub fn adjust(&mut self, settings: Adjustable) {
        self.attach.set_terms(settings.users, settings.geometry);
        self.limit_users(settings.user_limits);
        self.lifetime.set_grace(settings.grace);
        self.stack.settings.host = Box::new(Kernel(settings.host_settings));
        self.stack.settings.ecn = settings.ecn;
        self.stack.settings.access = settings.access;
        self.stack.settings.congestion = settings.congestion;
        self.stack.publish_congestion();
        self.stack.settings.user_timeout_option = settings.user_timeout_option;
        self.stack.settings.kernel_too = settings.kernel_too;
        self.set_batching(settings.batching);
        self.set_messages(settings.messages);
        self.set_accept_on_data(settings.accept_on_data);
    }

    /// What it speaks with programs that attach from now on: that of this release, unless it is
    /// told otherwise to be the engine of another one.
    pub fn set_versions(&mut self, versions: Versions) {
        self.attach.set_versions(versions);
    }

    pub(crate) fn take_orders(&mut self) {
        let _ = rustix::io::read(self.orders.fd(), &mut [0u8; 8]);
        while let Ok(order) = self.orders.waiting.try_recv() {
            match order {
                Order::Stop => self.drain(self.lifetime.grace()),
                Order::Adjust(settings) => self.adjust(*settings),
                Order::Ask(request, answers) => {
                    // One whose time is over wants it no more.
                    let _ = answers.send(self.report().to_own_user(request));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
