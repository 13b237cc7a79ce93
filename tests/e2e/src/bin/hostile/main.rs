//! Programs for the tests of what one user of a shared engine can do to another
//! (`tests/hostile.rs`): a hostile host half, a busy one that keeps to the rules, and an
//! innocent program that measures what it notices of them.
//!
//! ```text
//! hostile attack SOCKET NAME SEED SECONDS   one attack, as user 65534
//! hostile list                              the names of all attacks
//! hostile echo PORT                         answers each 64 bytes by the same
//! hostile ping ADDRESS PID...               a ping each millisecond, for ever, in which
//!                                           these processes have a part
//! hostile member                            joins groups and leaves them, for ever
//! hostile bulk ADDRESS PORT                 sends to itself as fast as it can
//! ```
//!
//! The attacker uses `hostif` as the socket library does, and the shared memory as it
//! likes. It draws everything from the seed, so that the same seed does the same things in
//! the same order.

mod attacks;
mod guest;
mod innocent;
mod random;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["list"] => attacks::ALL.iter().for_each(|(name, _)| println!("{name}")),
        ["attack", socket, name, seed, seconds] => {
            let (Ok(seed), Ok(seconds)) = (seed.parse(), seconds.parse()) else {
                return usage();
            };
            let Some((_, attack)) = attacks::ALL.iter().find(|(known, _)| *known == name) else {
                return usage();
            };
            guest::become_nobody();
            let until = Instant::now() + Duration::from_secs_f64(seconds);
            attacks::run(*attack, Path::new(socket), seed, until);
        }
        ["echo", port] => innocent::echo(port),
        ["ping", address, ref parts @ ..] => innocent::ping(address, parts),
        ["member"] => innocent::member(),
        ["bulk", address, port] => innocent::bulk(address, port),
        _ => return usage(),
    }
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("hostile: see the head of its source");
    ExitCode::from(2)
}
