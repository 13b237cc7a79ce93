//! How processes come to the session of the tests' engine: what they say over their connections,
//! and the channels and eventfds that they get.

use super::{Session, TOKEN, process};
use longshore_hostif::ChannelState;
use longshore_hostif::attach::{AttachError, Message, receive_with_files, send_as};
use longshore_ring::Doorbell;
use rustix::net::{SocketFlags, accept_with, sockopt::socket_peercred};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Session {
    pub(super) fn let_processes_in(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        while let Ok(client) = accept_with(&self.listener, flags) {
            self.clients.push(client);
        }
        for at in 0..self.clients.len() {
            loop {
                let client = self.clients[at].as_fd();
                let (message, fds) = match receive_with_files(client, &self.versions) {
                    Ok((message, _, fds)) => (message, fds),
                    Err(AttachError::Refused(why)) => {
                        self.say(at, &Message::Refused(why));
                        break;
                    }
                    Err(_) => break,
                };
                match message {
                    Message::Join(token) if token == TOKEN => self.admit(at),
                    Message::NewSession(_) => self.answer_launcher(at),
                    Message::Renew(token, _) if token == TOKEN => self.answer_launcher(at),
                    Message::Eventfd { waiter, ask } => self.make_wake_fd(at, waiter, ask),
                    Message::File { ask } => self.take_file(at, ask, fds),
                    Message::Child(token, _) if token == TOKEN => self.say(at, &Message::Known),
                    Message::Owner { signals, .. } => self.answer_owner(at, &message, signals),
                    _ => {}
                }
            }
        }
    }

    fn say(&self, client: usize, message: &Message) {
        let client = self.clients[client].as_fd();
        let _ = send_as(&self.versions, client, message, &[]);
    }

    /// Its only session is every launcher's.
    fn answer_launcher(&self, client: usize) {
        self.say(client, &Message::Session(TOKEN));
    }

    /// Gives descriptors for one or two signals, and for no more, behind an answer to another
    /// process, which has died since it asked.
    fn answer_owner(&self, client: usize, question: &Message, signals: u32) {
        let client = self.clients[client].as_fd();
        let fds = [(); 2].map(|()| Doorbell::new().expect("make an eventfd"));
        let fds = fds.each_ref().map(AsFd::as_fd);
        let mut of_another = *question;
        if let Message::Owner { ask, .. } = &mut of_another {
            *ask = !*ask;
        }
        let _ = send_as(&self.versions, client, &of_another, &fds[..1]);
        let given = &fds[..fds.len().min(signals as usize)];
        let _ = send_as(&self.versions, client, question, given);
    }

    fn make_wake_fd(&mut self, client: usize, waiter: u32, ask: u64) {
        let Ok(wake_fd) = Doorbell::new() else { return };
        let answer = Message::Eventfd { waiter, ask };
        let client = self.clients[client].as_fd();
        let _ = send_as(&self.versions, client, &answer, &[wake_fd.as_fd()]);
        wake_fd.ring();
        self.wake_fds.insert(waiter, Arc::new(wake_fd));
    }

    fn admit(&mut self, client: usize) {
        let client = self.clients[client].as_fd();
        let pid = socket_peercred(client).map_or(0, |c| c.pid.as_raw_nonzero().get() as u32);
        // A new image of a process keeps its channel; in tests, several hosts
        // share one process.
        let own = rustix::process::getpid().as_raw_nonzero().get() as u32;
        let known = self.processes.keys().copied().find(|c| {
            pid != own
                && self
                    .arena
                    .control(u32::from(*c))
                    .pid
                    .load(Ordering::Relaxed)
                    == pid
        });
        let channel = known.unwrap_or_else(|| {
            (0..self.arena.geometry().channels as u16)
                .find(|c| self.arena.control(u32::from(*c)).state() == ChannelState::Free)
                .expect("a free channel")
        });
        self.arena.reset_channel(u32::from(channel));
        let control = self.arena.control(u32::from(channel));
        control.pid.store(pid, Ordering::Relaxed);
        control.set_state(ChannelState::Open);
        let geometry = *self.arena.geometry();
        self.processes
            .insert(channel, process(&geometry, channel, pid));
        let welcome = Message::Welcome(u32::from(channel), geometry);
        let mut fds = vec![self.arena.as_fd()];
        fds.extend(self.workers.iter().map(|w| w.doorbell.as_fd()));
        let _ = send_as(&self.versions, client, &welcome, &fds);
    }
}
