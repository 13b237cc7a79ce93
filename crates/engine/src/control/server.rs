//! The control socket's server, made to be called from the engine's loop: one
//! descriptor to sleep on, no call that blocks, bounds on everything a client
//! can make it hold.

use super::client::{Asker, Client, turn_away};
use super::{ControlReply, ControlRequest};
use crate::reserve_fd::ReserveFd;
use longshore_ring::refuse_descriptors;
use rustix::event::epoll;
use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
    sockopt::socket_peercred,
};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Clients at once; another waits until one of them is done.
const MOST_CLIENTS: usize = 64;
/// Of these, those of all users who are neither root nor the engine's own; beyond them the one
/// that has been silent for longest has to leave, so that nobody keeps others from asking.
const MOST_OF_OTHERS: usize = 48;
/// Of these, those of one user; another of theirs is turned away.
const MOST_OF_USER: usize = 4;
/// Events taken in one call.
const EVENTS: usize = 8;
/// The listener's mark in the epoll instance; a client has its slot.
const LISTENER: u64 = u64::MAX;

/// Why the control socket cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the control socket {path}: {source}")]
pub struct ControlError {
    /// Its path.
    pub path: PathBuf,
    /// The kernel's reason.
    pub source: Errno,
}

/// Whether there is a socket at `path`, and nobody answers there.
fn is_left_behind(path: &Path, address: &SocketAddrUnix) -> bool {
    let is_socket = rustix::fs::lstat(path)
        .is_ok_and(|there| FileType::from_raw_mode(there.st_mode).is_socket());
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let probe = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    is_socket && probe.is_ok_and(|probe| connect(&probe, address) == Err(Errno::CONNREFUSED))
}

/// The control socket and its clients.
#[derive(Debug)]
pub struct ControlServer {
    epoll: OwnedFd,
    listener: OwnedFd,
    path: PathBuf,
    clients: Vec<Option<Client>>,
    /// The listener is left alone while all places are taken.
    listening: bool,
    /// Times that a client connected, asked or took some of an answer.
    activity: u64,
    reserve_fd: ReserveFd,
}

impl ControlServer {
    /// Listens at `path`, in place of a socket that an engine left behind there.
    /// Each process that may open the path may ask; what it learns is up to the one that answers.
    ///
    /// # Errors
    /// [`ControlError`].
    pub fn open(path: &Path) -> Result<Self, ControlError> {
        let fail = |source| ControlError {
            path: path.to_owned(),
            source,
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let listener =
            socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(fail)?;
        // Clients of other users may be let in: what they send is read in the engine's loop.
        let _ = refuse_descriptors(&listener);
        let address = SocketAddrUnix::new(path).map_err(fail)?;
        match bind(&listener, &address) {
            Err(Errno::ADDRINUSE) if is_left_behind(path, &address) => {
                rustix::fs::unlink(path).map_err(fail)?;
                bind(&listener, &address).map_err(fail)?;
            }
            bound => bound.map_err(fail)?,
        }
        listen(&listener, MOST_CLIENTS as i32).map_err(fail)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(fail)?;
        let mark = epoll::EventData::new_u64(LISTENER);
        epoll::add(&epoll, &listener, mark, epoll::EventFlags::IN).map_err(fail)?;
        Ok(ControlServer {
            epoll,
            listener,
            path: path.to_owned(),
            clients: Vec::new(),
            listening: true,
            activity: 0,
            reserve_fd: ReserveFd::new(),
        })
    }

    /// Readable when [`serve`](ControlServer::serve) has something to do.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Takes questions, asks `answer` for the answers, and sends them. Returns
    /// soon, whatever clients do.
    pub fn serve(&mut self, answer: &mut dyn FnMut(Asker, ControlRequest) -> ControlReply) {
        let mut events = [MaybeUninit::<epoll::Event>::uninit(); EVENTS];
        let no_wait = rustix::time::Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let ready = match epoll::wait(&self.epoll, &mut events, Some(&no_wait)) {
            Ok((ready, _)) => ready,
            Err(_) => return,
        };
        for event in ready.iter() {
            let mark = event.data.u64();
            if mark == LISTENER {
                self.let_in();
            } else {
                self.serve_client(mark as usize, answer);
            }
        }
    }

    fn let_in(&mut self) {
        let without = |fd| turn_away(fd, "it has no file descriptor left");
        let Some(fd) = self.reserve_fd.accept(&self.listener, without) else {
            return;
        };
        let Ok(credentials) = socket_peercred(&fd) else {
            return;
        };
        let asker = Asker {
            uid: credentials.uid.as_raw(),
        };
        self.take_in(fd, asker);
    }

    /// Gives a client a place, or turns it away.
    fn take_in(&mut self, fd: OwnedFd, asker: Asker) {
        let all = self.clients.iter().flatten();
        let others = all.filter(|client| !client.asker.sees_all());
        if !asker.sees_all() {
            let same = others.clone().filter(|client| client.asker == asker);
            if same.count() >= MOST_OF_USER {
                return turn_away(fd, "it has enough other questions of this user");
            }
            if others.count() >= MOST_OF_OTHERS {
                self.part_with_most_silent();
            }
        }
        let free = self.clients.iter().position(Option::is_none);
        let slot = free.unwrap_or_else(|| {
            self.clients.push(None);
            self.clients.len() - 1
        });
        let mark = epoll::EventData::new_u64(slot as u64);
        if epoll::add(&self.epoll, &fd, mark, epoll::EventFlags::IN).is_err() {
            return;
        }
        self.activity += 1;
        self.clients[slot] = Some(Client::new(fd, asker, self.activity));
        if self.clients.iter().flatten().count() >= MOST_CLIENTS {
            self.listen_again(false);
        }
    }

    /// Takes its place from the client, of those that are neither root's nor the engine's
    /// own, that has neither asked nor taken some of its answer for longest.
    fn part_with_most_silent(&mut self) {
        let places = self.clients.iter_mut().filter(|place| {
            let client = place.as_ref();
            client.is_some_and(|client| !client.asker.sees_all())
        });
        let silent = places.min_by_key(|place| place.as_ref().map(|client| client.activity));
        if let Some(client) = silent.and_then(Option::take) {
            client.leave("others ask, and it has been silent for longest");
        }
    }

    /// Whether the listener wakes us.
    fn listen_again(&mut self, yes: bool) {
        if self.listening == yes {
            return;
        }
        let flags = if yes {
            epoll::EventFlags::IN
        } else {
            epoll::EventFlags::empty()
        };
        let mark = epoll::EventData::new_u64(LISTENER);
        if epoll::modify(&self.epoll, &self.listener, mark, flags).is_ok() {
            self.listening = yes;
        }
    }

    fn serve_client(
        &mut self,
        slot: usize,
        answer: &mut dyn FnMut(Asker, ControlRequest) -> ControlReply,
    ) {
        let Some(client) = self.clients.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        self.activity += 1;
        client.activity = self.activity;
        if !client.serve(answer) {
            // Closing the descriptor takes it out of the epoll instance.
            self.clients[slot] = None;
            self.listen_again(true);
            return;
        }
        // A question that waits in the buffer wakes us by the room to answer it.
        let wants = if client.waits_for_question() {
            epoll::EventFlags::IN
        } else {
            epoll::EventFlags::OUT
        };
        let mark = epoll::EventData::new_u64(slot as u64);
        let _ = epoll::modify(&self.epoll, &client.fd, mark, wants);
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        let _ = rustix::fs::unlink(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{SsReply, SsRow, StatReply};
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixStream;

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("longshore-control-{name}-{}", std::process::id()))
    }

    fn answer(_: Asker, request: ControlRequest) -> ControlReply {
        match request {
            ControlRequest::Stat => ControlReply::Stat(Box::new(StatReply {
                pid: 7,
                ..Default::default()
            })),
            ControlRequest::Ss { from } => ControlReply::Ss(SsReply {
                rows: vec![SsRow::default(); 2000],
                next: Some(from + 1),
            }),
        }
    }

    /// Asks, with the server served in between.
    fn ask(server: &mut ControlServer, stream: &UnixStream, question: &[u8]) -> String {
        let asker = stream.try_clone().unwrap();
        let question = question.to_owned();
        let asking = std::thread::spawn(move || {
            (&asker).write_all(&question).unwrap();
            let mut line = String::new();
            let _ = BufReader::new(asker).read_line(&mut line);
            line
        });
        while !asking.is_finished() {
            server.serve(&mut answer);
            std::thread::yield_now();
        }
        asking.join().unwrap()
    }

    #[test]
    fn questions_are_answered_one_after_the_other() {
        let at = path("answers");
        let mut server = ControlServer::open(&at).unwrap();
        let stream = UnixStream::connect(&at).unwrap();
        let line = ask(&mut server, &stream, b"{\"cmd\":\"stat\"}\n");
        assert!(line.contains("\"pid\":7"), "{line}");
        let line = ask(&mut server, &stream, b"{\"cmd\":\"ss\",\"from\":4}\n");
        match serde_json::from_str(&line).unwrap() {
            ControlReply::Ss(reply) => {
                assert_eq!((reply.rows.len(), reply.next), (2000, Some(5)));
            }
            other => panic!("{other:?}"),
        }
        drop(server);
        assert!(!at.exists());
    }

    #[test]
    fn only_a_socket_that_nobody_answers_at_is_replaced() {
        let at = path("replaced");
        let first = ControlServer::open(&at).unwrap();
        assert_eq!(
            ControlServer::open(&at).unwrap_err().source,
            Errno::ADDRINUSE
        );
        let kept = path("kept");
        std::fs::rename(&at, &kept).unwrap();
        drop(first);
        std::fs::rename(&kept, &at).unwrap();
        drop(ControlServer::open(&at).unwrap());
        std::fs::write(&at, "precious").unwrap();
        assert_eq!(
            ControlServer::open(&at).unwrap_err().source,
            Errno::ADDRINUSE
        );
        assert_eq!(std::fs::read_to_string(&at).unwrap(), "precious");
        std::fs::remove_file(&at).unwrap();
    }

    /// It answers nobody now, and will.
    #[test]
    fn a_socket_with_a_full_queue_is_not_replaced_and_nobody_waits_for_it() {
        let at = path("full");
        let address = SocketAddrUnix::new(&*at).unwrap();
        let flags = SocketFlags::NONBLOCK;
        let stream = || socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        let busy = stream();
        bind(&busy, &address).unwrap();
        listen(&busy, 0).unwrap();
        let mut waiting = vec![];
        let full = loop {
            waiting.push(stream());
            if let Err(refused) = connect(&waiting[waiting.len() - 1], &address) {
                break refused;
            }
        };
        assert_eq!(full, Errno::AGAIN);
        let refused = ControlServer::open(&at).unwrap_err();
        assert_eq!(refused.source, Errno::ADDRINUSE);
        std::fs::remove_file(&at).unwrap();
    }

    /// A client that has connected may be gone when it is looked.
    #[test]
    fn the_engine_waits_for_no_client() {
        let at = path("nobody");
        let mut server = ControlServer::open(&at).unwrap();
        server.let_in();
        assert!(server.clients.is_empty());
        let client = UnixStream::connect(&at).unwrap();
        server.let_in();
        // It has asked nothing.
        server.serve_client(0, &mut answer);
        assert_eq!(server.clients.iter().flatten().count(), 1);
        drop(client);
        server.serve_client(0, &mut answer);
        assert_eq!(server.clients.iter().flatten().count(), 0);
    }

    fn is_ready(server: &ControlServer) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(server.fd(), PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).unwrap() == 1
    }

    /// Serves as often as there is something to do, which is not without end.
    fn serve_all(server: &mut ControlServer) {
        let served = (0..1_000).take_while(|_| {
            let ready = is_ready(server);
            server.serve(&mut answer);
            ready
        });
        assert!(served.count() < 1_000, "it is awake for nothing");
    }

    /// The loop sleeps on the server's descriptor, so that must wake it neither for nothing nor
    /// too seldom.
    #[test]
    fn the_server_is_ready_when_it_can_do_something_and_at_no_other_time() {
        let at = path("ready");
        let mut server = ControlServer::open(&at).unwrap();
        assert!(!is_ready(&server));
        let mut client = UnixStream::connect(&at).unwrap();
        assert!(is_ready(&server));
        serve_all(&mut server);
        // Half a question, and then the rest with another behind it.
        for part in [&b"{\"cmd\""[..], b":\"stat\"}\n{\"cmd\":\"stat\"}\n"] {
            client.write_all(part).unwrap();
            assert!(is_ready(&server));
            serve_all(&mut server);
        }
        let mut answers = BufReader::new(client.try_clone().unwrap());
        let mut line = String::new();
        assert_ne!(answers.read_line(&mut line).unwrap(), 0);
        assert_ne!(answers.read_line(&mut line).unwrap(), 0);
        // An answer that finds no room goes on when its client has read some of it.
        client.write_all(b"{\"cmd\":\"ss\",\"from\":0}\n").unwrap();
        serve_all(&mut server);
        line.clear();
        client.set_nonblocking(true).unwrap();
        let mut pauses = 0;
        while answers.read_line(&mut line).is_err() {
            pauses += 1;
            assert!(is_ready(&server), "there is room again");
            serve_all(&mut server);
        }
        assert!(line.ends_with('\n') && pauses != 0);
    }

    #[test]
    fn questions_in_one_write_are_all_answered() {
        let at = path("together");
        let mut server = ControlServer::open(&at).unwrap();
        let mut stream = UnixStream::connect(&at).unwrap();
        stream
            .write_all(b"{\"cmd\":\"stat\"}\n{\"cmd\":\"stat\"}\n")
            .unwrap();
        for _ in 0..10 {
            server.serve(&mut answer);
        }
        let mut lines = BufReader::new(stream).lines();
        assert_eq!(
            lines.next().unwrap().unwrap(),
            lines.next().unwrap().unwrap()
        );
    }

    /// Its end may come later.
    #[test]
    fn a_question_may_be_as_long_as_the_longest() {
        let at = path("longest");
        let mut server = ControlServer::open(&at).unwrap();
        let mut stream = UnixStream::connect(&at).unwrap();
        let longest = format!("{:1024}", "{\"cmd\":\"stat\"}");
        stream.write_all(longest.as_bytes()).unwrap();
        serve_all(&mut server);
        let line = ask(&mut server, &stream, b"\n");
        assert!(line.contains("\"pid\":7"), "{line}");
    }

    #[test]
    fn nonsense_is_told_so_and_endless_lines_are_cut_off() {
        let at = path("nonsense");
        let mut server = ControlServer::open(&at).unwrap();
        let stream = UnixStream::connect(&at).unwrap();
        let line = ask(&mut server, &stream, b"hello\n");
        assert!(line.contains("does not understand"), "{line}");
        assert_eq!(ask(&mut server, &stream, &[b'x'; 5000]), "");
    }

    #[test]
    fn more_clients_than_places_wait_for_their_turn() {
        let at = path("clients");
        let mut server = ControlServer::open(&at).unwrap();
        let mut streams: Vec<_> = (0..MOST_CLIENTS + 1)
            .map(|_| UnixStream::connect(&at).unwrap())
            .collect();
        for _ in 0..100 {
            server.serve(&mut answer);
        }
        assert_eq!(server.clients.iter().flatten().count(), MOST_CLIENTS);
        let last = streams.pop().unwrap();
        streams.pop();
        let line = ask(&mut server, &last, b"{\"cmd\":\"stat\"}\n");
        assert!(line.contains("\"pid\":7"), "{line}");
    }

    /// A client of user `uid`, as if it had connected.
    fn connect_as(server: &mut ControlServer, uid: u32) -> UnixStream {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        server.take_in(ours.into(), Asker { uid });
        theirs
    }

    #[test]
    fn silent_clients_of_many_users_keep_nobody_from_asking() {
        let at = path("silent");
        let mut server = ControlServer::open(&at).unwrap();
        // Away from root's number, and from that of the user who runs this.
        let user = |n: usize| 1_000_000 + (n / MOST_OF_USER) as u32;
        let mut silent: Vec<_> = (0..MOST_OF_OTHERS)
            .map(|n| connect_as(&mut server, user(n)))
            .collect();
        // The first has asked since, so the second has been silent for longest.
        let line = ask(&mut server, &silent[0], b"{\"cmd\":\"stat\"}\n");
        assert!(line.contains("\"pid\":7"), "{line}");
        let later = connect_as(&mut server, user(MOST_OF_OTHERS));
        let line = ask(&mut server, &later, b"{\"cmd\":\"stat\"}\n");
        assert!(line.contains("\"pid\":7"), "{line}");
        let mut answer = String::new();
        let mut parted = BufReader::new(silent.swap_remove(1));
        parted.read_line(&mut answer).unwrap();
        assert!(answer.contains("silent for longest"), "{answer}");
        assert_eq!(parted.read_line(&mut answer).unwrap(), 0);
        let line = ask(&mut server, &silent[0], b"{\"cmd\":\"stat\"}\n");
        assert!(line.contains("\"pid\":7"), "{line}");
        // Root has places that others cannot have.
        let root = UnixStream::connect(&at).unwrap();
        let line = ask(&mut server, &root, b"{\"cmd\":\"stat\"}\n");
        assert!(line.contains("\"pid\":7"), "{line}");
    }

    /// Each question counts, also where nobody comes between two.
    #[test]
    fn whoever_has_asked_first_has_been_silent_for_longest() {
        let at = path("first");
        let mut server = ControlServer::open(&at).unwrap();
        let user = |n: usize| 1_000_000 + (n / MOST_OF_USER) as u32;
        let mut clients: Vec<_> = (0..MOST_OF_OTHERS)
            .map(|n| connect_as(&mut server, user(n)))
            .collect();
        for client in clients.iter().rev() {
            let line = ask(&mut server, client, b"{\"cmd\":\"stat\"}\n");
            assert!(line.contains("\"pid\":7"), "{line}");
        }
        let _later = connect_as(&mut server, user(MOST_OF_OTHERS));
        let mut answer = String::new();
        let first = clients.pop().unwrap();
        first.set_nonblocking(true).unwrap();
        BufReader::new(first).read_line(&mut answer).unwrap();
        assert!(answer.contains("silent for longest"), "{answer}");
    }

    /// Each that comes takes the place of the one that came first, not of the last.
    #[test]
    fn whoever_has_come_last_stays_while_others_have_been_silent_for_longer() {
        let at = path("last");
        let mut server = ControlServer::open(&at).unwrap();
        let user = |n: usize| 1_000_000 + (n / MOST_OF_USER) as u32;
        let _silent: Vec<_> = (0..MOST_OF_OTHERS)
            .map(|n| connect_as(&mut server, user(n)))
            .collect();
        let later: Vec<_> = (0..3)
            .map(|n| connect_as(&mut server, user(MOST_OF_OTHERS + n)))
            .collect();
        for client in &later {
            let line = ask(&mut server, client, b"{\"cmd\":\"stat\"}\n");
            assert!(line.contains("\"pid\":7"), "{line}");
        }
    }

    #[test]
    fn one_user_has_few_places() {
        let at = path("few");
        let mut server = ControlServer::open(&at).unwrap();
        let held: Vec<_> = (0..MOST_OF_USER)
            .map(|_| connect_as(&mut server, 1_000_000))
            .collect();
        let mut answer = String::new();
        let refused = connect_as(&mut server, 1_000_000);
        BufReader::new(refused).read_line(&mut answer).unwrap();
        assert!(answer.contains("of this user"), "{answer}");
        assert!(answer.ends_with('\n'), "a line, as each answer: {answer}");
        let line = ask(&mut server, &held[0], b"{\"cmd\":\"stat\"}\n");
        assert!(line.contains("\"pid\":7"), "{line}");
    }
}
