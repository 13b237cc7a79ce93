//! `epoll_create`, `epoll_ctl`, `epoll_wait` and their kin, on the instances of `epoll`.

pub mod control;
mod own_waits;
pub mod wait;
