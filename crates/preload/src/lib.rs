//! The POSIX shim for unmodified programs: libc's socket calls on the host
//! library.
//!
//! It is loaded before libc (`LD_PRELOAD`) and takes over the calls that may
//! concern a socket of the engine, one file for each family in [`calls`]. Each
//! asks the table of descriptors (`fds`) whether the descriptor is one of
//! ours; if not, libc's own function does the work. Whether a socket becomes
//! the engine's is settled when it is bound, connected or sent from (`decide`);
//! until then, and for its number and flags ever after, a kernel socket stands
//! behind the descriptor.
//!
//! What the process keeps lies below the calls, and calls none of them: its place in the
//! session (`place`, which `state` takes), the descriptors and what follows when they change
//! (`lifecycle`), its epoll instances (`epoll`), the options of its sockets (`options`).
//!
//! Without `LONGSHORE_ENGINE` and `LONGSHORE_SESSION` in the environment it
//! does nothing.

mod address;
mod address_space;
pub mod calls;
mod cancel;
mod decide;
mod environment;
mod epoll;
mod fds;
mod kept;
mod kernel;
mod leaked;
mod lifecycle;
mod log;
mod mapping;
mod namespace;
mod options;
mod own_calls;
mod own_code;
mod owner;
mod page_exchange;
mod pages;
mod pipes;
mod place;
mod real;
mod results;
mod room;
pub mod sanitizers;
mod signals;
mod state;
pub mod user;
mod vectors;
