//! What of an engine's set-up can be changed while it runs, and the handle by which other
//! threads tell a running engine so, or that it is to stop.
//!
//! Whoever runs an engine has its [`Handle`]; `longshore engine` uses it when signals come.
//! Orders wait in a channel, and the engine takes them when it next looks at its
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
    /// How long connections may go on after the engine was told to stop.
    pub grace: Duration,
    /// The host's settings, which new sockets start from; none for Longshore's own.
    pub host_settings: Option<HostSettings>,
    /// Explicit congestion notification for new sockets, in place of the host's setting.
    pub ecn: Option<EcnMode>,
    /// Who may reach what; connections that are there go on.
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

/// Tells a running engine what to do, from another thread.
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
        self.lifetime.grace = settings.grace;
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

    /// What it speaks with programs that attach from now on: that of this release, unless it is told
    /// otherwise to be the engine of another one.
    pub fn set_versions(&mut self, versions: Versions) {
        self.attach.set_versions(versions);
    }

    pub(crate) fn take_orders(&mut self) {
        let _ = rustix::io::read(self.orders.fd(), &mut [0u8; 8]);
        while let Ok(order) = self.orders.waiting.try_recv() {
            match order {
                Order::Stop => self.drain(self.lifetime.grace),
                Order::Adjust(settings) => self.adjust(*settings),
                Order::Ask(request, answers) => {
                    // One whose time is over wants it no more.
                    let _ = answers.send(self.answer_own_user(request));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::common::Host;
    use crate::testing::{GEOMETRY, Turned};
    use longshore_hostif::attach::{SessionOptions, new_session};
    use longshore_hostif::{Delimiter, MessageRule};
    use longshore_stack::LowPorts;
    use longshore_tcp::Instant;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use std::sync::atomic::Ordering;

    fn settings() -> Adjustable {
        let rule = MessageRule::Delimiter(Delimiter::new(b"\n").unwrap());
        let timed = TimedRule { rule, within_ms: 5 };
        Adjustable {
            users: vec![4_000_001],
            geometry: Geometry {
                sockets: 128,
                ..GEOMETRY
            },
            user_limits: UserLimits {
                sockets: 7,
                memory: 8,
            },
            grace: Duration::from_secs(9),
            host_settings: Some(HostSettings::open()),
            ecn: EcnMode::from_number(1),
            access: Access {
                low_ports: LowPorts::Root,
                ..Access::default()
            },
            congestion: Some(Congestion::ALL[0]),
            user_timeout_option: true,
            kernel_too: false,
            batching: Batching::fixed(2, 3),
            messages: BTreeMap::from([(80, timed)]),
            accept_on_data: BTreeMap::from([(81, 82)]),
        }
    }

    #[test]
    fn all_settings_hold_from_the_moment_at_which_the_engine_gets_them() {
        let mut world = Turned::new();
        let [host] = world.programs();
        let congestion = |host: &Host| host.arena.header().congestion.load(Ordering::Relaxed);
        let before = congestion(&host);
        let handle = world.engine.handle();
        handle.adjust(settings());
        world.until("the order", |engine| !engine.lifetime.grace.is_zero());
        let engine = &mut world.engine;
        assert!(engine.attach.is_listed(4_000_001) && !engine.attach.is_listed(4_000_002));
        assert_eq!(engine.lifetime.grace, Duration::from_secs(9));
        let user = engine.attach.users.get(4_000_001);
        let held: Vec<_> = (0..9).map_while(|_| user.account.take_socket()).collect();
        assert_eq!(held.len(), 7);
        let now = Instant(1);
        let set = &mut engine.stack.settings;
        assert!(set.host.defaults(now).is_some());
        assert_eq!(set.ecn, EcnMode::from_number(1));
        assert_eq!(set.access.low_ports, LowPorts::Root);
        assert_eq!(set.congestion, Some(Congestion::ALL[0]));
        assert!(set.user_timeout_option && !set.kernel_too);
        assert_eq!(set.batching, Batching::fixed(2, 3));
        assert_eq!(set.messages, settings().messages);
        assert_eq!(set.accept_on_data, settings().accept_on_data);
        // Programs that are there know with what new sockets begin.
        assert_ne!(congestion(&host), before);
        // A new session has as much as is said now.
        let options = SessionOptions::default();
        let root = world.during(|path| new_session(path, options).is_ok());
        let is_root = rustix::process::geteuid().is_root();
        assert_eq!(root, is_root, "others are not on the list");
        if is_root {
            let of = |half: &longshore_stack::Session| half.host.geometry().sockets;
            let [mut other] = world.programs();
            let half = world.engine.stack.sessions.iter().map(|(_, half)| of(half));
            assert!(half.collect::<Vec<_>>().contains(&128));
            other.drain();
        }
    }

    #[test]
    fn modes_of_ecn_are_those_that_linux_has_numbers_for() {
        for number in 0..=5 {
            assert_eq!(
                Adjustable::ecn_mode(number).ok(),
                EcnMode::from_number(number)
            );
        }
        assert!(matches!(Adjustable::ecn_mode(6), Err(EngineError::Ecn(6))));
        let mut world = Turned::new();
        assert!(world.engine.set_ecn(6).is_err());
        assert_eq!(world.engine.stack.settings.ecn, None);
        world.engine.set_ecn(3).unwrap();
        assert_eq!(world.engine.stack.settings.ecn, EcnMode::from_number(3));
    }

    /// What another thread asks is answered as the engine's own user is.
    #[test]
    fn an_engine_answers_and_stops_by_its_handle() {
        let mut world = Turned::with(|config| config.grace = Duration::from_secs(5));
        let handle = world.engine.handle();
        let answer = world.during(move |_| {
            let answer = handle.ask(ControlRequest::Stat, Duration::from_secs(60));
            handle.stop();
            answer
        });
        assert!(matches!(answer, Some(ControlReply::Stat(_))));
        world.until("the order", |engine| engine.lifetime.draining);
        let left = world.engine.lifetime.drain_by.0 - world.engine.stack.now().0;
        assert!((4_000_000..=5_000_000).contains(&left), "{left}");
        // Once it has looked, no order wakes it again.
        world.engine.take_orders();
        let wake = world.engine.orders.fd();
        let mut wakes = [PollFd::from_borrowed_fd(wake, PollFlags::IN)];
        assert_eq!(poll(&mut wakes, Some(&Timespec::default())), Ok(0));
    }

    #[test]
    fn orders_wait_in_turn_and_those_for_an_engine_that_is_gone_are_lost() {
        let orders = Orders::new().unwrap();
        let handle = orders.handle.clone();
        handle.stop();
        assert!(matches!(orders.waiting.try_recv(), Ok(Order::Stop)));
        assert!(orders.waiting.try_recv().is_err());
        drop(orders);
        handle.stop();
        assert_eq!(
            handle.ask(ControlRequest::Stat, Duration::from_secs(60)),
            None
        );
    }
}
