//! The engine: one single-threaded closed loop over packets, requests, timers
//! and what comes of them.
//!
//! Owns the [`Stack`], which says what packets and requests mean, and what touches the
//! machine around it: the clock, sleeping, the threads that attach programs and answer
//! questions, when to read the port and when to end. [`Engine::turn`] is the loop's body,
//! and its list of stages is the design of this crate; [`Engine::run`] repeats it and sleeps
//! between.

use crate::adjust::Orders;
use crate::attach::{ListenError, Policy, Server, Terms};
use crate::control::{ControlError, ControlServer};
use crate::intake::{Intake, Which};
use crate::kernel::Kernel;
use crate::listeners::Listeners;
use crate::maintenance::Maintenance;
use crate::receive_policy::ReceivePolicy;
use crate::session::Sessions;
use crate::sleep::Sleeper;
use crate::teardown::Teardowns;
use crate::time::Clock;
use longshore_hostif::{Geometry, Loopback};
use longshore_net::Cidr;
use longshore_ports::{Port, PortError, RecvBuffer};
use longshore_ring::EventfdSignaler;
use longshore_stack::AddressError;
use longshore_stack::Secrets;
use longshore_stack::{Interface, Notice, Settings, Stack};
use longshore_tcp::{EcnMode, Instant};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How an engine is set up.
pub struct Config {
    /// Where its packets go.
    pub port: Box<dyn Port>,
    /// What the port is called, as `tap:longshore0`, for those who ask.
    pub port_name: String,
    /// Its addresses, each with the prefix it is in: at most one of IPv4, any number
    /// of IPv6 up to 15. With one of IPv6 it also has a link-local one.
    pub addresses: Vec<Cidr>,
    /// Addresses and routers that it finds itself.
    pub automatic: longshore_stack::Automatic,
    /// The routers to everywhere else, at most one for each version of IP; without one
    /// the engine reaches its own prefixes and leaves the rest to the kernel.
    pub gateways: Vec<IpAddr>,
    /// The number of its port's interface in its programs' kernel, by which they name
    /// it in link-local addresses; 0 if it has none there.
    pub scope: u32,
    /// Who has 127.0.0.0/8 and ::1.
    pub loopback: Loopback,
    /// Connections between two of its own sockets pass their bytes on without
    /// building packets.
    pub cut_through: bool,
    /// Where programs find it.
    pub socket: PathBuf,
    /// Where `stat` and `ss` find it.
    pub control: Option<PathBuf>,
    /// How much each session can have of everything.
    pub geometry: Geometry,
    /// End when the last session has ended.
    pub private: bool,
    /// Programs of other users may join the sessions of a private engine: its user is root,
    /// whose programs may become theirs.
    pub others_may_join: bool,
    /// The users whose programs may use it; empty for everybody who can open
    /// the socket.
    pub users: Vec<u32>,
    /// How long to look for work before sleeping.
    pub spin: Duration,
    /// How long connections may go on after the engine was told to stop.
    pub grace: Duration,
}

/// Why an engine cannot be made or go on.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// Its socket.
    #[error(transparent)]
    Attach(#[from] ListenError),
    /// Its control socket.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// Its own descriptors.
    #[error("the engine cannot set up its event loop: {0}")]
    Events(#[from] rustix::io::Errno),
    /// The kernel gives no random numbers.
    #[error("the kernel gives the engine no random numbers: {0}")]
    Random(rustix::io::Errno),
    /// The port is gone.
    #[error("the engine's port failed: {0}")]
    Port(PortError),
    /// Its addresses.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// Nobody has given it an address.
    #[error("{0}")]
    NoAddress(longshore_stack::Missing),
    /// ECN is off, or in one of five modes.
    #[error("the mode {0} of ECN is not from 0 to 5")]
    Ecn(u8),
}

/// The engine.
pub struct Engine {
    pub(crate) stack: Stack,
    /// Who uses it, by the stack's keys of sessions.
    pub(crate) sessions: Sessions,
    /// What ended processes held and is not yet let go of.
    pub(crate) teardowns: Teardowns,
    pub(crate) clock: Clock,
    /// Attaches programs.
    pub(crate) attach: Server,
    pub(crate) sleeper: Sleeper,
    pub(crate) orders: Orders,
    pub(crate) control: Option<ControlServer>,
    pub(crate) intake: Intake,
    pub(crate) receiver: Receiver,
    pub(crate) lifetime: Lifetime,
    pub(crate) about: About,
    pub(crate) maintenance: Maintenance,
    /// What crossed in sessions that have ended.
    pub(crate) past_meter: longshore_hostif::Meter,
}

/// Taking frames from the port.
#[derive(Default)]
pub(crate) struct Receiver {
    buffer: RecvBuffer,
    pub(crate) receive_policy: ReceivePolicy,
}

/// When an engine ends.
pub(crate) struct Lifetime {
    /// With its last session.
    pub(crate) private: bool,
    pub(crate) had_session: bool,
    /// Set when no new sessions are let in.
    pub(crate) draining: bool,
    /// How long connections may go on after it was told to stop.
    pub(crate) grace: Duration,
    /// When it ends whatever goes on, once it is `draining`.
    pub(crate) drain_by: Instant,
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

    /// The same with sockets that are bound already: what that needed may have been given
    /// up since.
    ///
    /// # Errors
    /// As [`Engine::new`].
    pub fn at(listeners: Listeners, config: Config) -> Result<Self, EngineError> {
        let clock = Clock::new();
        let now = clock.now();
        let secrets = secrets_of_the_kernel().map_err(EngineError::Random)?;
        let settings = Settings::new(
            Box::new(Kernel(None)),
            config.loopback,
            config.scope,
            config.cut_through,
        );
        let interface = Interface {
            port: config.port,
            addresses: &config.addresses,
            gateways: &config.gateways,
            automatic: &config.automatic,
        };
        let stack = Stack::new(interface, settings, &secrets, now)?;
        let signaler = Arc::new(if config.private {
            EventfdSignaler::for_one()
        } else {
            EventfdSignaler::for_many()
        });
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
        Ok(Self {
            stack,
            sessions: Sessions::default(),
            teardowns: Teardowns::default(),
            clock,
            attach,
            sleeper,
            orders,
            control,
            intake: Intake::default(),
            receiver: Receiver::default(),
            lifetime: Lifetime {
                private: config.private,
                had_session: false,
                draining: false,
                grace: config.grace,
                drain_by: Instant::NEVER,
            },
            about: About {
                notice: |_| (),
                port_name: config.port_name,
                sandbox: String::new(),
                may_be_held_up,
            },
            maintenance: Maintenance::new(now),
            past_meter: longshore_hostif::Meter::default(),
        })
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
    pub fn limit_users(&mut self, limits: crate::attach::UserLimits) {
        self.attach.users.set_limits(limits);
    }

    /// From now on, new sockets start from the host's settings.
    pub fn follow(&mut self, settings: crate::sysctl::HostSettings) {
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

    /// From now on, connections of new sockets tell their peers of the time that
    /// TCP_USER_TIMEOUT sets, and go by what those tell of theirs where it is not set (RFC
    /// 5482). Off at first, as Linux does neither.
    pub fn set_user_timeout_option(&mut self, on: bool) {
        self.stack.settings.user_timeout_option = on;
    }

    /// Serves until it is told to stop, or, for a private engine, until its
    /// programs are gone.
    ///
    /// # Errors
    /// [`EngineError`] if the port or the event loop fails.
    pub fn run(&mut self) -> Result<(), EngineError> {
        loop {
            let worked = self.turn()?;
            // The turn may have ended the last session: nobody would wake it for that.
            if self.is_finished() {
                break;
            }
            self.contained(|engine| engine.rest(worked).map(|()| true))?;
        }
        self.say_goodbye();
        self.give_back();
        Ok(())
    }

    /// One turn of the loop; says whether there was anything to do.
    ///
    /// # Errors
    /// [`EngineError::Port`] if the port is gone.
    pub fn turn(&mut self) -> Result<bool, EngineError> {
        let now = self.clock.now();
        self.contained(|engine| engine.turn_at(now))
    }

    /// A turn, with the time of it.
    pub(crate) fn turn_at(&mut self, now: Instant) -> Result<bool, EngineError> {
        self.stack.begin_turn(now);
        // What programs asked before a packet came is done before it is taken: an
        // option, say, for which the engine was not woken.
        if self.intake.stalled_until <= now {
            self.retry_stalled();
        }
        let mut worked = self.take_requests(Which::Due);
        if self.receiver.receive_policy.is_due(worked) {
            worked |= self.receive()?;
        }
        worked |= self.stack.handle_timeouts();
        if self.maintenance.at <= now {
            self.maintain();
        }
        self.stack.relieve_memory_pressure();
        if !self.teardowns.is_empty() {
            worked |= self.continue_teardowns();
        }
        worked |= self.stack.settle();
        if self.stack.has_late_binds() {
            self.bind_late();
            worked = true;
        }
        self.stack.answer_questions();
        self.stack.publish();
        self.park_idle();
        if !self.stack.notices.is_empty() {
            self.tell_notices();
        }
        self.stack.port_mut().flush().map_err(EngineError::Port)?;
        Ok(worked)
    }

    fn receive(&mut self) -> Result<bool, EngineError> {
        let most = self.receiver.receive_policy.most();
        let (mut count, mut found_end) = (0, false);
        let result = loop {
            if count == most {
                break Ok(());
            }
            let buffer = &mut self.receiver.buffer;
            match self.stack.port_mut().recv_single(buffer) {
                Ok(Some(meta)) => {
                    if count == 0 {
                        // What programs asked before it came, where that can make a
                        // difference to it.
                        self.take_requests(Which::BeforeFrames);
                    }
                    count += 1;
                    let frame = self.receiver.buffer.frame(meta.len);
                    self.stack.frame_in(frame, &meta);
                }
                Ok(None) => {
                    found_end = true;
                    break Ok(());
                }
                Err(e) => break Err(EngineError::Port(e)),
            }
        };
        let receive_policy = &mut self.receiver.receive_policy;
        receive_policy.reached_end(found_end);
        receive_policy.took(count);
        // A turn that takes one frame leaves others for the next, which is no sign.
        let may_have_more = count == most && most > 1;
        self.stack.looked_at_port(count, may_have_more);
        count += self.stack.take_own_packets();
        result.map(|()| count != 0)
    }

    /// Tells the operator what the stack has noticed.
    #[cold]
    fn tell_notices(&mut self) {
        for notice in self.stack.notices.drain(..) {
            match notice {
                Notice::SynFlood => (self.about.notice)(
                    "more SYNs come than can be read: all but some are dropped at the port until \
                     there are fewer (`syns_dropped_at_port` in `longshore stat`)",
                ),
                Notice::Panic { session } => (self.about.notice)(&format!(
                    "session {session} was ended: its work met a bug of this engine, which has \
                     said where (`contained_panics` in `longshore stat`); its connections were \
                     reset, the other sessions go on"
                )),
                Notice::ArenaFull { session } => (self.about.notice)(&format!(
                    "session {session} has no memory left for what it receives: its programs \
                     have to read, or to use an engine with more (`session.receive_mib` in its \
                     configuration)"
                )),
            }
        }
    }

    /// Stops letting sessions in, and ends when those there are have ended, at
    /// the latest after `grace`.
    pub fn drain(&mut self, grace: Duration) {
        self.lifetime.draining = true;
        self.lifetime.drain_by = Instant(self.stack.now().0 + grace.as_micros() as u64);
    }
}

/// Secrets that nobody else knows.
fn secrets_of_the_kernel() -> Result<Secrets, rustix::io::Errno> {
    let mut key = [0; 16];
    rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty())?;
    Ok(Secrets::new(key))
}
