//! The adapter: an engine that does TCP/IP for the programs beside it.
//!
//! One worker, one single-threaded closed loop ([`Engine::turn`]) over packets,
//! requests, timers and what comes of them. It owns the port, the connections
//! and the memory it shares with its programs; `cli` starts it, and programs
//! reach it through `hostif` alone. What packets and requests mean is for
//! [`longshore_stack`] to say.
//!
//! | file | what it has |
//! | --- | --- |
//! | `config`, `error` | how it is set up, and why it cannot be or go on |
//! | `turn` | the loop |
//! | `receive_policy` | when the port is read |
//! | `intake` | when whose requests are taken |
//! | `acquire` | addresses that are waited for |
//! | `reclaim` | memory that is used no more goes back |
//! | `programs`, `session/`, `teardown` | the programs that use it: sessions, their processes and launchers, and what ended ones held |
//! | `attach/`, `attach_events`, `listeners` | how programs come |
//! | `users` | what each user has of it |
//! | `kernel`, `sysctl`, `privilege` | the host's TCP settings, and what its kernel lets processes do |
//! | `adjust` | settings that change while it runs |
//! | `maintenance`, `lifetime` | what has ended is seen to; when the engine itself ends |
//! | `sleep`, `reserve_fd` | sleeping, and what wakes it |
//! | `placement`, `precedence` | on which processor it runs, and before whom |
//! | `control`, `report`, `catalog` | what a run costs, made visible |
//!
//! [`Engine`] is composed of the parts that these files own, and has the loop and what is set from
//! outside. What changes several parts is done by a type that borrows those (`Requests` takes
//! requests, `Maintenance` sees to what has ended, `Attaching` does what programs want of their
//! sessions, `Report` reads all for clients). Modules use each other in no circle.

// What the tests of the whole engine are made of names this crate.
#[cfg(test)]
extern crate self as longshore_engine;

mod acquire;
mod adjust;
mod attach;
mod attach_events;
#[cfg(feature = "bench")]
pub mod bench;
mod catalog;
mod config;
mod containment;
pub mod control;
mod error;
mod intake;
mod kernel;
mod lifetime;
mod listeners;
mod maintenance;
mod placement;
mod precedence;
mod privilege;
mod programs;
mod receive_policy;
mod reclaim;
mod report;
mod reserve_fd;
mod session;
mod sleep;
mod sysctl;
mod teardown;
#[cfg(test)]
mod testing;
mod time;
mod turn;
mod users;

pub use adjust::{Adjustable, Handle};
pub use attach::ListenError;
pub use catalog::{CounterInfo, counters};
pub use config::{Config, Placement};
pub use error::EngineError;
pub use listeners::{Listeners, check_kernel};
pub use longshore_hostif::adapter::{Batching, LONGEST_BATCHING, MOST_BATCHED};
pub use longshore_hostif::{
    Delimiter, LONGEST_DELIMITER, LengthPrefix, MessageRule, WIDEST_LENGTH,
};
pub use longshore_stack::{
    Access, AddressError, Automatic, BadRule, EngineDrop, LowPorts, Rule, Rules, TimedRule,
    Transport,
};
pub use longshore_tcp::Congestion;
pub use sysctl::HostSettings;
pub use users::UserLimits;

use adjust::Orders;
use attach::{Policy, Server, Terms};
use attach_events::Attaching;
use catalog::Counted;
use control::ControlServer;
use intake::{Intake, Requests};
use kernel::Kernel;
use lifetime::Lifetime;
use longshore_ports::RecvBuffer;
use longshore_ring::EventfdSignaler;
use longshore_stack::{Interface, Secrets, Settings, Stack};
use longshore_tcp::EcnMode;
use maintenance::Maintenance;
use placement::Placer;
use programs::Programs;
use receive_policy::ReceivePolicy;
use report::Report;
use sleep::{Sleeper, Source};
use std::collections::BTreeMap;
use std::sync::Arc;
use time::Clock;

/// The engine.
pub struct Engine {
    pub(crate) stack: Stack,
    /// The programs that use it.
    pub(crate) programs: Programs,
    pub(crate) clock: Clock,
    /// Attaches programs.
    pub(crate) attach: Server,
    pub(crate) sleeper: Sleeper,
    pub(crate) placer: Placer,
    pub(crate) orders: Orders,
    pub(crate) control: Option<ControlServer>,
    pub(crate) intake: Intake,
    pub(crate) receiver: Receiver,
    pub(crate) lifetime: Lifetime,
    pub(crate) about: About,
}

/// Taking frames from the port.
#[derive(Default)]
pub(crate) struct Receiver {
    buffer: RecvBuffer,
    pub(crate) receive_policy: ReceivePolicy,
}

/// What an engine says of itself.
pub(crate) struct About {
    /// Says something to the operator.
    pub(crate) notice: fn(&str),
    /// What its port is called.
    pub(crate) port_name: String,
    /// What keeps it from doing more than it needs, in words.
    pub(crate) sandbox: String,
    /// What wakes programs that sleep in poll may be held up.
    may_be_held_up: bool,
}

impl Engine {
    /// Makes an engine and lets programs attach.
    ///
    /// # Errors
    /// [`EngineError`]: the socket's path is taken, descriptors ran out, or the
    /// addresses cannot be.
    pub fn new(config: Config) -> Result<Self, EngineError> {
        let listeners = Listeners::bind(&config.socket, config.control.as_deref())?;
        Self::at(listeners, config)
    }

    /// As `new`, with sockets that are bound already: what that needed may have been given
    /// up since.
    ///
    /// # Errors
    /// As [`Engine::new`].
    pub fn at(listeners: Listeners, config: Config) -> Result<Self, EngineError> {
        if config.geometry.workers != 1 {
            return Err(EngineError::Workers(config.geometry.workers));
        }
        let clock = Clock::new();
        let now = clock.now();
        let secrets = secrets_of_the_kernel().map_err(EngineError::Random)?;
        let mut settings = Settings::new(
            Box::new(Kernel(None)),
            config.loopback,
            config.scope,
            config.cut_through,
        );
        settings.has_one_session = config.private;
        let interface = Interface {
            port: config.port,
            addresses: &config.addresses,
            gateways: &config.gateways,
            automatic: &config.automatic,
        };
        let stack = Stack::new(interface, settings, &secrets, now)?;
        let signaler = signaler_for(config.private);
        let may_be_held_up = signaler.may_block();
        let policy = Policy {
            terms: Terms::new(config.users, config.geometry),
            private: config.private,
            others_may_join: config.others_may_join,
            signaler,
        };
        let Listeners { attach, control } = listeners;
        let attach = Server::start(attach, policy)?;
        let orders = Orders::new()?;
        let (port, control_server) = (stack.port(), control.as_ref());
        let sleeper = Sleeper::new(port, &attach.inbox, control_server, &orders, config.spin)?;
        let programs = Programs::new(now)?;
        sleeper.watch(programs.deaths.fd(), Source::Deaths)?;
        Ok(Self {
            stack,
            programs,
            clock,
            attach,
            sleeper,
            placer: Placer::of_this_thread(config.placement, now),
            orders,
            control,
            intake: Intake::default(),
            receiver: Receiver::default(),
            lifetime: Lifetime::new(config.private, config.grace),
            about: About {
                notice: |_| (),
                port_name: config.port_name,
                sandbox: String::new(),
                may_be_held_up,
            },
        })
    }

    /// What takes requests, with the parts that this changes.
    fn requests(&mut self) -> Requests<'_> {
        Requests {
            intake: &mut self.intake,
            stack: &mut self.stack,
            programs: &mut self.programs,
            clock: self.clock,
        }
    }

    /// What sees to changes in sessions, with the parts that this changes.
    fn maintenance(&mut self) -> Maintenance<'_> {
        self.attaching().maintenance
    }

    /// What does what programs want of their sessions, with the parts that this changes.
    fn attaching(&mut self) -> Attaching<'_> {
        Attaching {
            maintenance: Maintenance {
                stack: &mut self.stack,
                programs: &mut self.programs,
                intake: &mut self.intake,
                clock: self.clock,
                sleeper: &mut self.sleeper,
                disposal: &self.attach.disposal,
            },
            lifetime: &mut self.lifetime,
        }
    }

    /// What is reported of it, from the parts that know it.
    fn report(&self) -> Report<'_> {
        Report {
            counted: Counted {
                stack: &self.stack,
                programs: &self.programs,
                attach: &self.attach,
            },
            about: &self.about,
        }
    }

    /// Whether a hostile program can hold it up: it serves one alone, or the kernel has no
    /// AIO.
    pub fn may_be_held_up(&self) -> bool {
        self.about.may_be_held_up
    }

    /// Whether programs cannot even send it descriptors, which it would have to close.
    pub fn refuses_descriptors(&self) -> bool {
        self.attach.refuses_descriptors
    }

    /// From now on, what the operator should know is said so, each thing once for each
    /// session.
    pub fn on_notice(&mut self, notice: fn(&str)) {
        self.about.notice = notice;
    }

    /// What its process has given up, for those who ask.
    pub fn set_sandbox(&mut self, words: &str) {
        words.clone_into(&mut self.about.sandbox);
    }

    /// From now on, the sessions of each ordinary user who comes may have this much together.
    pub fn limit_users(&mut self, limits: UserLimits) {
        self.attach.users.set_limits(limits);
    }

    /// From now on, new sockets start from the host's settings.
    pub fn follow(&mut self, settings: HostSettings) {
        self.stack.settings.host = Box::new(Kernel(Some(settings)));
    }

    /// From now on, new sockets use ECN as net.ipv4.tcp_ecn would say with this number,
    /// whatever the host's own says: accurate ECN is more than many kernels have.
    ///
    /// # Errors
    /// [`EngineError::Ecn`] if there is no such mode.
    pub fn set_ecn(&mut self, number: u8) -> Result<(), EngineError> {
        let mode = EcnMode::from_number(number).ok_or(EngineError::Ecn(number))?;
        self.stack.settings.ecn = Some(mode);
        Ok(())
    }

    /// From now on, descriptors of new sessions cross in batches of this kind; without it they
    /// do when they are of use.
    pub fn set_batching(&mut self, batching: Option<Batching>) {
        self.stack.settings.batching = batching;
    }

    /// From now on, the messages of connections that are accepted at these ports end so, if
    /// their programs do not say otherwise; nobody is woken for a piece of one.
    pub fn set_messages(&mut self, messages: BTreeMap<u16, TimedRule>) {
        self.stack.settings.messages = messages;
    }

    /// From now on, connections to these ports wait for data, for so many milliseconds at most,
    /// before their listeners are notified of them, if their programs do not say otherwise.
    pub fn set_accept_on_data(&mut self, by_port: BTreeMap<u16, u32>) {
        self.stack.settings.accept_on_data = by_port;
    }

    /// From now on, connections of new sockets tell their peers of the time that
    /// TCP_USER_TIMEOUT sets, and go by what those tell of theirs where it is not set (RFC
    /// 5482). Off at first, as Linux does neither.
    pub fn set_user_timeout_option(&mut self, on: bool) {
        self.stack.settings.user_timeout_option = on;
    }
}

/// What signals programs, for an engine of one program or of many.
fn signaler_for(private: bool) -> Arc<EventfdSignaler> {
    Arc::new(if private {
        EventfdSignaler::for_one()
    } else {
        EventfdSignaler::for_many()
    })
}

/// Secrets that nobody else knows.
fn secrets_of_the_kernel() -> Result<Secrets, rustix::io::Errno> {
    let mut key = [0; 16];
    rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty())?;
    Ok(Secrets::new(key))
}
