//! A web server's way to answer, as nginx has it with `tcp_nopush`: it puts the cork in, writes
//! a header, appends a file, and takes the cork out or closes. Between any two calls the stack
//! has turns.
//!
//! Owns [`Response`]; `program` calls it where a plan has one.

use super::program::Program;
use super::streams::append_file;
use super::talk::Talk;
use longshore_hostif::{EdgeFlags, FileExtent, FileId, HeldFile, HostSession, Hurry};
use longshore_tcp::Instant;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};

/// Bytes of a request.
const REQUEST: u64 = 100;

/// Bytes of the shortest file that is appended by ranges.
const LEAST_BY_RANGE: u64 = 32 << 10;

/// How a server answers each request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Response {
    /// Bytes of the header and of the file.
    pub(super) header: u64,
    pub(super) size: u64,
    /// The connection is kept.
    pub(super) keeps: bool,
    /// The descriptor by which the file is appended says which bytes of it are.
    pub(super) tells: bool,
    /// Microseconds between two calls.
    pub(super) pause_us: u64,
}

impl Response {
    /// Bytes of all of it.
    pub(super) fn len(&self) -> u64 {
        self.header + self.size
    }

    /// Bytes of so many requests.
    pub(super) fn requests(count: u64) -> u64 {
        count * REQUEST
    }

    /// Byte `at` of a stream of responses.
    pub(super) fn byte(&self, at: u64) -> u8 {
        let at = at % self.len();
        ((at % 251) ^ (at >> 12)) as u8
    }

    fn bytes(&self, range: std::ops::Range<u64>) -> Vec<u8> {
        range.map(|at| self.byte(at)).collect()
    }

    /// The file.
    pub(super) fn file(&self) -> (OwnedFd, FileId) {
        let file = tempfile::tempfile().unwrap();
        let content = self.bytes(self.header..self.len());
        file.write_all_at(&content, 0).unwrap();
        let metadata = file.metadata().unwrap();
        let (device, inode) = (metadata.dev(), metadata.ino());
        (file.into(), FileId { device, inode })
    }
}

impl Program {
    /// A client asks again once it has read the answer.
    pub(super) fn ask(&mut self, talk: &mut Talk, response: &Response) {
        let answered = talk.read / response.len();
        let has_all = talk.read == answered * response.len();
        if has_all && talk.written == Response::requests(answered) {
            if talk.written != talk.plan.out {
                assert!(self.write_bytes(talk, REQUEST));
                self.edges_with(talk, EdgeFlags::PUSH, REQUEST as u16);
            } else if !talk.shut {
                talk.shut = true;
                if response.keeps {
                    self.edges_with(talk, EdgeFlags::SHUT_WR, 0);
                }
            }
        }
    }

    /// A server makes its next call, if it is at an answer and has paused.
    pub(super) fn answer(&mut self, talk: &mut Talk, response: &Response, now: Instant) {
        let is_asked = talk.read > Response::requests(talk.written / response.len());
        if now < talk.call_at || talk.calls == 0 && !is_asked {
            return;
        }
        talk.call_at = now.after_us(response.pause_us);
        talk.calls += 1;
        let corked = EdgeFlags::MORE | EdgeFlags::CORK;
        self.hurry = Hurry::HeldBack;
        match talk.calls {
            1 => self.edges_with(talk, corked, 0),
            2 => {
                let at = talk.written;
                let header = response.bytes(at..at + response.header);
                self.write_these(talk, &header);
                self.edges_with(talk, EdgeFlags::PUSH | EdgeFlags::CORK, header.len() as u16);
            }
            3 => {
                let (immediate, extent) = self.append_body(talk, response);
                let edges = talk.moved(EdgeFlags::PUSH | EdgeFlags::CORK, immediate);
                let extent = extent.filter(|_| response.tells);
                self.put(extent.map_or(edges, |extent| edges.sending(extent)));
            }
            4 if response.keeps => {
                self.hurry = Hurry::Soon;
                self.edges_with(talk, EdgeFlags::PUSH, 0);
            }
            4 => {
                self.hurry = Hurry::Soon;
                self.close(talk);
            }
            _ => {
                // It sleeps.
                talk.calls = 0;
                talk.shut = talk.written == talk.plan.out;
                self.flush();
            }
        }
    }

    /// Appends the file as `sendfile` does: a short one is copied. Says how much of it crosses
    /// with its descriptor, or which bytes of it the chunks stand for.
    fn append_body(&self, talk: &mut Talk, response: &Response) -> (u16, Option<FileExtent>) {
        let content = response.bytes(response.header..response.len());
        if response.size < LEAST_BY_RANGE {
            self.write_these(talk, &content);
            return (content.len() as u16, None);
        }
        let host = HostSession::of(self.arena());
        let id = self.file.expect("it was handed over");
        let file: HeldFile<'_> = host.hold_file(id).unwrap();
        let (index, from) = (talk.socket.index, talk.written);
        talk.written = append_file(self.arena(), &host, index, from, (&file, &content));
        assert_eq!(talk.written, from + response.size);
        (0, file.extent(0, content.len()))
    }
}
