//! Closes and frees what may take long to, in a thread of its own: connections of programs,
//! and the memory of sessions that have ended.

use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Sender, channel};

/// Where to send what is to be dropped elsewhere.
#[derive(Debug, Clone)]
pub(crate) struct Disposal(Sender<Box<dyn Send>>);

impl Disposal {
    /// Starts the thread, which ends when nobody can send it anything any more.
    pub(crate) fn start() -> std::io::Result<Self> {
        let (send, receive) = channel::<Box<dyn Send>>();
        std::thread::Builder::new()
            .name("disposal".to_owned())
            .spawn(move || receive.into_iter().for_each(drop))?;
        Ok(Self(send))
    }

    /// Has something dropped. Where the thread is gone, the process is about to be.
    pub(crate) fn take(&self, what: impl Send + 'static) {
        let _ = self.0.send(Box::new(what));
    }
}

/// What is dropped elsewhere.
#[derive(Debug)]
pub(crate) struct Dispose<T: Send + 'static> {
    /// There until it is dropped.
    what: Option<T>,
    by: Disposal,
}

impl<T: Send + 'static> Dispose<T> {
    pub(crate) fn new(what: T, by: &Disposal) -> Self {
        Self {
            what: Some(what),
            by: by.clone(),
        }
    }
}

impl<T: Send + 'static> Deref for Dispose<T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.what.as_ref().expect("there until it is dropped")
    }
}

impl<T: Send + AsFd + 'static> AsFd for Dispose<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.deref().as_fd()
    }
}

impl<T: Send + 'static> Drop for Dispose<T> {
    fn drop(&mut self) {
        if let Some(what) = self.what.take() {
            self.by.take(what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_here_is_dropped_in_another_thread() {
        struct Notice(Sender<std::thread::ThreadId>);
        impl Drop for Notice {
            fn drop(&mut self) {
                let _ = self.0.send(std::thread::current().id());
            }
        }
        let (send, receive) = channel();
        let disposal = Disposal::start().unwrap();
        drop(Dispose::new(Notice(send), &disposal));
        let thread = receive.recv().unwrap();
        assert_ne!(thread, std::thread::current().id());
    }
}
