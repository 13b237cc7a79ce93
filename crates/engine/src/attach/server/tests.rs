//! The processes that may attach, what is read of them, and for how long they may be silent.

use super::*;
use crate::attach::testing::connection;
use crate::testing::GEOMETRY;
use longshore_hostif::attach::{dial, receive, send_as};
use longshore_ring::EventfdSignaler;
use std::path::PathBuf;
use tempfile::TempDir;

/// A user that is trusted with nothing.
const OTHER_USER: u32 = 4_000_001;

fn policy(users: Vec<u32>, private: bool, others_may_join: bool) -> Policy {
    Policy {
        terms: Terms::new(users, GEOMETRY),
        private,
        others_may_join,
        signaler: Arc::new(EventfdSignaler::for_many()),
    }
}

#[test]
fn a_private_engine_is_its_users_and_a_shared_one_is_for_those_on_its_list() {
    let own = rustix::process::geteuid().as_raw();
    // Whether each may attach, and open a session.
    let table = [
        // Shared, without a list.
        (
            policy(vec![], false, true),
            [(true, true), (true, true), (true, true)],
        ),
        // With one, on which root need not be.
        (
            policy(vec![OTHER_USER], false, true),
            [(true, true), (own == 0, true), (true, true)],
        ),
        (
            policy(vec![OTHER_USER + 1], false, true),
            [(true, true), (own == 0, true), (false, true)],
        ),
        // Private, whose sessions others may join or not.
        (
            policy(vec![], true, true),
            [(true, true), (true, true), (true, false)],
        ),
        (
            policy(vec![], true, false),
            [(true, true), (true, true), (false, false)],
        ),
    ];
    for (row, (policy, expected)) in table.into_iter().enumerate() {
        let may = |uid| (policy.may_attach(uid), policy.may_open(uid));
        assert_eq!([0, own, OTHER_USER].map(may), expected, "row {row}");
    }
    assert!(Policy::takes_files_of(0) && Policy::takes_files_of(own));
    assert!(!Policy::takes_files_of(OTHER_USER));
}

/// The thread's own, without the thread.
struct World {
    thread: Thread,
    inbox: Inbox,
    path: PathBuf,
    _dir: TempDir,
}

fn world(policy: Policy) -> World {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("engine");
    let Listener { place, fd, .. } = Listener::bind(&path).unwrap();
    // It goes with its directory.
    std::mem::forget(place);
    let (queue, inbox) = queue().unwrap();
    let thread = Thread {
        epoll: epoll::create(epoll::CreateFlags::CLOEXEC).unwrap(),
        listener: fd,
        policy,
        users: Arc::new(Users::new(Limits::of_one(64, 64))),
        disposal: Disposal::start().unwrap(),
        connections: HashMap::new(),
        without_session: VecDeque::new(),
        next: 0,
        memory_at: Instant::now(),
        reserve_fd: ReserveFd::new(),
        files: OfferedFiles::start(queue.clone()).unwrap(),
        queue,
        _stop: Arc::new(eventfd(0, EventfdFlags::CLOEXEC).unwrap()),
    };
    World {
        thread,
        inbox,
        path,
        _dir: dir,
    }
}

impl World {
    /// Somebody connects, and is let in or turned away.
    fn connect(&mut self) -> OwnedFd {
        let connection = dial(&self.path).unwrap();
        self.thread.accept();
        connection
    }

    /// When silent connections are looked at again, after those whose time is over are closed.
    fn silent_until(&mut self) -> Option<Duration> {
        self.thread.close_silent().ok().expect("the loop goes on")
    }

    fn counts(&self) -> &crate::users::Counts {
        &self.thread.users.counts
    }
}

fn says(connection: &OwnedFd, message: &Message) {
    send_as(&Versions::OURS, connection.as_fd(), message, &[]).unwrap();
}

fn received(connection: &OwnedFd) -> Option<Message> {
    receive(connection.as_fd()).ok().map(|(message, _)| message)
}

/// An engine that ends leaves no thread that goes on talking to programs.
#[test]
fn programs_find_their_connections_closed_when_the_engine_ends() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("engine");
    let listener = Listener::bind(&path).unwrap();
    let server = Server::start(listener, policy(vec![], false, true)).unwrap();
    let connection = dial(&path).unwrap();
    says(&connection, &Message::Known);
    // Nobody says that before an engine: it is closed, so the thread was there.
    assert_eq!(received(&connection), None);
    let connection = dial(&path).unwrap();
    let began = Instant::now();
    drop(server);
    assert_eq!(received(&connection), None);
    assert!(
        began.elapsed() < SILENT_FOR / 2,
        "it was closed for being silent"
    );
}

/// To close a descriptor may take as long as a program likes: here, until what was written to it is
/// read. The thread that serves programs does not wait for that.
#[test]
fn what_nobody_wants_of_a_program_holds_up_no_other() {
    let mut world = world(policy(vec![], false, true));
    let connection = world.connect();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let slow = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (reader, _) = listener.accept().unwrap();
    let linger = Some(Duration::from_secs(600));
    rustix::net::sockopt::set_socket_linger(&slow, linger).unwrap();
    slow.set_nonblocking(true).unwrap();
    while std::io::Write::write(&mut &slow, &[0; 1 << 16]).is_ok() {}
    let fds = [slow.as_fd()];
    send_as(&Versions::OURS, connection.as_fd(), &Message::Known, &fds).unwrap();
    drop(slow);
    std::thread::scope(|scope| {
        let served = scope.spawn(|| world.thread.serve(0).is_ok());
        let began = Instant::now();
        while !served.is_finished() && began.elapsed() < Duration::from_secs(10) {
            std::thread::yield_now();
        }
        let is_served = served.is_finished();
        // What waits for it goes on.
        drop(reader);
        assert!(is_served && served.join().unwrap());
    });
}

#[test]
fn a_connection_without_a_session_may_be_silent_for_a_while() {
    let mut world = world(policy(vec![], false, true));
    assert_eq!(world.silent_until(), None, "nobody is there");
    let [silent, settled, later] = [(); 3].map(|()| world.connect());
    let left = world.silent_until().unwrap();
    assert!(left <= SILENT_FOR && left > SILENT_FOR / 2, "{left:?}");
    assert_eq!(world.thread.connections.len(), 3);
    world.thread.connections[&1].allow_silence();
    // As if the time of the first two were over.
    let now = Instant::now();
    for place in 0..2 {
        world.thread.without_session[place].0 = now - Duration::from_millis(1);
    }
    let left = world.silent_until().unwrap();
    assert!(left <= SILENT_FOR && left > SILENT_FOR / 2, "{left:?}");
    let mut there: Vec<u64> = world.thread.connections.keys().copied().collect();
    there.sort_unstable();
    assert_eq!(there, [1, 2]);
    assert_eq!(world.counts().silent.load(Ordering::Relaxed), 1);
    assert_eq!(received(&silent), None);
    // It may have asked for something all the same.
    assert_eq!(events(&world), ["Gone"]);
    // The last one has gone by itself: nobody else is waited for.
    world.thread.connections.remove(&2);
    assert_eq!(world.silent_until(), None);
    assert_eq!(world.counts().silent.load(Ordering::Relaxed), 1);
    drop((settled, later));
}

#[test]
fn whoever_may_not_attach_is_told_so_and_counted() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let mut world = world(policy(vec![OTHER_USER + 1], false, true));
    let path = world.path.clone();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    for path in [path.parent().unwrap(), &path] {
        std::fs::set_permissions(path, std::fs::Permissions::clone(&open)).unwrap();
    }
    let other_user = std::thread::spawn(move || {
        rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(OTHER_USER)).unwrap();
        dial(&path).unwrap()
    });
    let other_user = other_user.join().unwrap();
    world.thread.accept();
    assert_eq!(
        received(&other_user),
        Some(Message::Refused(Refusal::NotAllowed))
    );
    assert_eq!(world.counts().not_allowed.load(Ordering::Relaxed), 1);
    assert!(world.thread.connections.is_empty());
    // And whoever is on the list has as many connections as it may.
    world
        .thread
        .policy
        .terms
        .get(|set| set.users = vec![OTHER_USER]);
    let path = world.path.clone();
    let others = std::thread::spawn(move || {
        rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(OTHER_USER)).unwrap();
        (0..17).map(|_| dial(&path).unwrap()).collect::<Vec<_>>()
    });
    let others = others.join().unwrap();
    (0..17).for_each(|_| world.thread.accept());
    assert_eq!(world.thread.connections.len(), 16);
    let refused = Some(Message::Refused(Refusal::NoResources));
    assert_eq!(received(&others[16]), refused);
    assert_eq!(world.counts().user_connections.load(Ordering::Relaxed), 1);
}

/// The events that wait for the loop, by name.
fn events(world: &World) -> Vec<String> {
    let of = |event: Event| {
        let words = format!("{event:?}");
        words.split(['(', ' ']).next().unwrap().to_owned()
    };
    world.inbox.take().into_iter().map(of).collect()
}

#[test]
fn what_is_asked_is_told_to_the_loop_one_message_at_a_time() {
    let mut world = world(policy(vec![], false, true));
    let connection = world.connect();
    let token = Token([9; 16]);
    let socket = longshore_hostif::SocketId {
        index: 0,
        generation: 1,
    };
    let owner = Message::Owner {
        socket,
        signals: 1,
        ask: 1,
    };
    for (message, expected) in [
        (Message::NewSession(SessionOptions::default()), "New"),
        (Message::Renew(token, SessionOptions::default()), "New"),
        (Message::Join(token), "Join"),
        (Message::Child(token, 3), "Child"),
        (Message::Eventfd { waiter: 0, ask: 1 }, "Eventfd"),
        (owner, "Owner"),
    ] {
        says(&connection, &message);
        says(&connection, &Message::Join(token));
        assert!(world.thread.serve(0).is_ok());
        assert_eq!(events(&world), [expected]);
        assert!(world.thread.serve(0).is_ok());
        assert_eq!(events(&world), ["Join"]);
    }
    assert!(world.thread.serve(0).is_ok(), "nothing is there");
    assert!(world.thread.serve(77).is_ok(), "nobody is there");
    assert!(events(&world).is_empty());
    // What an engine says is nothing that a program may say.
    says(&connection, &Message::Known);
    assert!(world.thread.serve(0).is_ok());
    assert_eq!(events(&world), ["Gone"]);
    assert!(world.thread.connections.is_empty());
    assert_eq!(received(&connection), None);
    // One that is closed is gone, too.
    drop(world.connect());
    assert!(world.thread.serve(1).is_ok());
    assert_eq!(events(&world), ["Gone"]);
}

#[test]
fn whoever_says_at_once_what_it_wants_is_heard_as_it_comes() {
    let mut world = world(policy(vec![], false, true));
    let connection = dial(&world.path).unwrap();
    says(&connection, &Message::Join(Token([9; 16])));
    world.thread.accept();
    assert_eq!(events(&world), ["Join"]);
    assert_eq!(world.thread.connections.len(), 1);
    // Nobody waits to be let in.
    world.thread.accept();
    assert_eq!(world.thread.connections.len(), 1);
}

/// Memory of ordinary users is looked at once a second, as long as they have any.
#[test]
fn sessions_of_a_user_that_takes_too_much_memory_are_to_end() {
    let mut world = world(policy(vec![], false, true));
    assert_eq!(world.thread.look_at_memory().ok(), Some(None));
    world.thread.users.set_limits(crate::users::UserLimits {
        sockets: 1,
        memory: 1,
    });
    let user = world.thread.users.get(OTHER_USER);
    let signaler = Arc::new(EventfdSignaler::for_one());
    let session = AdapterSession::create(GEOMETRY, signaler).unwrap();
    let memory = session.memory_fd().as_fd().try_clone_to_owned().unwrap();
    let arena = longshore_hostif::Arena::open(memory, GEOMETRY).unwrap();
    user.note_memory(7, session.memory());
    let place = arena.snd_place(0, 0, 1 << 16).unwrap();
    arena.memory().write(place, &[7; 1 << 16]);
    assert_eq!(world.thread.look_at_memory().ok(), Some(Some(MEMORY_EVERY)));
    assert_eq!(events(&world), ["Overdrawn"]);
    // Not again at once.
    let left = world.thread.look_at_memory().ok().flatten().unwrap();
    assert!(left <= MEMORY_EVERY && left > MEMORY_EVERY / 2, "{left:?}");
    assert!(events(&world).is_empty());
    world.thread.memory_at = Instant::now();
    assert_eq!(world.thread.look_at_memory().ok(), Some(Some(MEMORY_EVERY)));
    assert_eq!(events(&world), ["Overdrawn"]);
    drop((session, arena));
    world.thread.memory_at = Instant::now();
    assert_eq!(world.thread.look_at_memory().ok(), Some(None));
}

#[test]
fn a_new_session_is_what_its_launcher_and_the_terms_say() {
    let mut world = world(policy(vec![], false, true));
    let connection = world.connect();
    let wanted = SessionOptions {
        without_immediate_data: true,
        ..SessionOptions::default()
    };
    for (message, is_renewed) in [
        (Message::NewSession(wanted), false),
        (Message::Renew(Token([9; 16]), wanted), true),
    ] {
        says(&connection, &message);
        assert!(world.thread.serve(0).is_ok());
        let Some(Event::New(new, options, asker)) = world.inbox.take().pop() else {
            panic!("no session");
        };
        let (session, half) = *new;
        assert_eq!(options, wanted);
        assert_eq!((asker.number, session.launcher), (0, Some(0)));
        assert_eq!(session.is_renewed, is_renewed);
        assert_eq!(session.token == Token([9; 16]), is_renewed);
        assert_eq!(session.uid, rustix::process::geteuid().as_raw());
        assert!(session.user.is_some() && session.share.is_some());
        assert!(half.account.is_some());
        assert_eq!(*half.host.geometry(), GEOMETRY);
        let features = half.host.agreed().features;
        assert!(!features.contains(Features::IMMEDIATE_DATA));
        assert!(features.contains(Features::FILES));
    }
    // Each has a number of its own.
    let mut serials = Vec::new();
    for _ in 0..2 {
        says(&connection, &Message::NewSession(SessionOptions::default()));
        assert!(world.thread.serve(0).is_ok());
        if let Some(Event::New(new, ..)) = world.inbox.take().pop() {
            assert!(
                new.1
                    .host
                    .agreed()
                    .features
                    .contains(Features::IMMEDIATE_DATA)
            );
            serials.push((new.0.serial, new.0.token));
        }
    }
    assert!(serials[0].0 < serials[1].0 && serials[0].1 != serials[1].1);
}

/// A file may hold up whoever reads it: of users who could not end the engine otherwise none are
/// taken.
#[test]
fn sessions_of_other_users_have_no_files() {
    let mut world = world(policy(vec![], false, true));
    let _program = world.connect();
    for (uid, has_files) in [
        (world.thread.connections[&0].user.uid, true),
        (OTHER_USER, false),
    ] {
        let user = world.thread.users.get(uid);
        let fd = world.thread.connections[&0].fd.as_fd();
        let fd = fd.try_clone_to_owned().unwrap();
        let connection = connection(fd, user, &world.thread.disposal);
        let name = Name {
            token: Token([3; 16]),
            is_renewed: false,
        };
        let wanted = SessionOptions::default();
        let made = world
            .thread
            .new_session(name, &connection, &Versions::OURS, wanted);
        let (_, half) = made.unwrap();
        let features = half.host.agreed().features;
        assert_eq!(features.contains(Features::FILES), has_files, "{uid}");
    }
}

/// One that has joined a session, or has been given one, need not say more.
#[test]
fn whoever_has_a_session_may_be_silent() {
    let mut world = world(policy(vec![], false, true));
    let _both = [(); 2].map(|()| world.connect());
    let connection = |world: &World, number| world.thread.connections[&number].clone();
    assert!(world.silent_until().is_some());
    connection(&world, 0).join(crate::attach::Membership { key: 0, serial: 1 });
    assert!(world.silent_until().is_some());
    connection(&world, 1).allow_silence();
    assert_eq!(world.silent_until(), None);
    assert_eq!(world.thread.connections.len(), 2);
}
