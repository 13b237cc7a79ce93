//! The small programs that scenarios run, on either stack. They use the standard
//! library's sockets, so they are ordinary programs to Longshore; only those whose
//! names begin with `native` are written for it.
//!
//! `longshore-bench __program NAME ARGUMENTS...` runs one, and so does `longshore __program`.

use crate::datagram_echo::answer_datagrams;
use crate::experiments::characterize::payloads;
use crate::flood;
use crate::generator::{Generator, Service, Wait};
use crate::report::gigabits;
use longshore_ports::tap::{Tap, TapConfig};
use rustix::net::sockopt::set_tcp_congestion;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// What one call sends or receives in bulk.
const PIECE: usize = 128 * 1024;
/// Bytes of a page of memory.
const PAGE: usize = 4096;

/// Runs the program of this name.
///
/// # Errors
/// Those of its sockets; an unknown name or argument.
pub fn run(name: &str, arguments: &[String]) -> io::Result<()> {
    let text = |at: usize| {
        arguments
            .get(at)
            .map(String::as_str)
            .ok_or_else(|| io::Error::other(format!("{name} needs more arguments")))
    };
    let number = |at: usize| {
        text(at)?
            .parse::<u64>()
            .map_err(|e| io::Error::other(format!("{name}: {e}")))
    };
    // What one call moves, if it is said.
    let piece = || match arguments.len() {
        0 | 1 => Ok(PIECE),
        _ => Ok::<usize, io::Error>(number(1)?.clamp(1, 1 << 30) as usize),
    };
    // Over how many connections at once, if it is said.
    let streams = || match arguments.len() {
        0..=2 => Ok(1),
        _ => number(2),
    };
    match name {
        "source" => source(text(0)?, piece()?, false),
        "source-touched" => source(text(0)?, piece()?, true),
        "sink" => sink(text(0)?, piece()?, false),
        "sink-touched" => sink(text(0)?, piece()?, true),
        "datagram-echo" => {
            answer_datagrams(&UdpSocket::bind(text(0)?)?);
            Ok(())
        }
        "native-source" => crate::native::source(text(0)?),
        "native-sink" => crate::native::sink(text(0)?),
        "native-pull" => in_streams(1, || rate_of(number(1)?, crate::native::taker(text(0)?)?)),
        "pull" => in_streams(streams()?, || pull(text(0)?, number(1)?)),
        "push" => in_streams(streams()?, || push(text(0)?, number(1)?)),
        "echo" => echo(text(0)?),
        "ping" => ping(text(0)?, number(1)?),
        "fill" => fill(text(0)?, number(1)?, text(2).ok()),
        "parts" => crate::experiments::path::parts::run(),
        "payloads" | "payloads-apart" => {
            let sizes: Result<Vec<usize>, _> = arguments.iter().map(|size| size.parse()).collect();
            payloads::run(&sizes.map_err(io::Error::other)?, name == "payloads")
        }
        "payload-times" => payloads::time(text(0)?, number(1)? as usize, number(2)?),
        "generator" => generate(text(0)?, text(1)?, &arguments[2..]),
        "mirror" => flood::mirror(text(0)?),
        "steady" => flood::steady(text(0)?, number(1)?, number(2)?),
        "flood" => flood::flood(
            text(0)?.parse().map_err(io::Error::other)?,
            number(1)?,
            number(2)?,
        ),
        _ => Err(io::Error::other(format!("there is no program {name}"))),
    }
}

/// Serves each connection to `at` in a thread of its own. The threads stay when they are done: what
/// a thread has used of a processor is read from /proc, and is there as long as it is.
fn serve_each(at: &str, serve: impl Fn(TcpStream) + Copy + Send + 'static) -> io::Result<()> {
    for stream in TcpListener::bind(at)?.incoming() {
        let stream = stream?;
        std::thread::spawn(move || {
            serve(stream);
            loop {
                std::thread::park();
            }
        });
    }
    Ok(())
}

/// Sends without end, so many bytes with each call, to whoever connects to `at`; writes them
/// anew before, if they are to be touched.
fn source(at: &str, size: usize, touches: bool) -> io::Result<()> {
    serve_each(at, move |mut stream| {
        let (mut room, from) = paged(size);
        let piece = &mut room[from..from + size];
        piece.fill(b's');
        while stream.write_all(piece).is_ok() {
            if touches {
                piece.fill(b't');
            }
        }
    })
}

/// Memory for so many bytes, and where in it they begin: with a page, as `--zero-copy` needs it.
fn paged(size: usize) -> (Vec<u8>, usize) {
    let room = vec![0; size + PAGE];
    let from = room.as_ptr().align_offset(PAGE);
    (room, from)
}

/// Reads all that comes from whoever connects to `at`, at most so many bytes with each call, and
/// says how much it was; looks at each word, if it is to be touched.
fn sink(at: &str, size: usize, touches: bool) -> io::Result<()> {
    serve_each(at, move |mut stream| {
        let (mut room, from) = paged(size);
        let piece = &mut room[from..from + size];
        let mut bytes = 0_u64;
        while let Ok(n @ 1..) = stream.read(piece) {
            bytes += n as u64;
            if touches {
                let words = piece[..n].as_chunks::<8>().0.iter();
                let sum = words.fold(0, |sum: u64, word| sum ^ u64::from_ne_bytes(*word));
                std::hint::black_box(sum);
            }
        }
        // A peer that only looked whether we are here does not wait for this.
        let _ = stream.write_all(&bytes.to_be_bytes());
    })
}

/// Does `one` in so many threads at once, and prints the sum of the Gb/s that they give; one
/// alone is done without a thread.
fn in_streams(count: u64, one: impl Fn() -> io::Result<f64> + Sync) -> io::Result<()> {
    if count == 1 {
        println!("{}", one()?);
        return Ok(());
    }
    let rates: io::Result<Vec<f64>> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..count).map(|_| scope.spawn(&one)).collect();
        let ended = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            let lost = |_| Err(io::Error::other("a stream's thread panicked"));
            thread.join().unwrap_or_else(lost)
        };
        all.into_iter().map(ended).collect()
    });
    println!("{}", rates?.iter().sum::<f64>());
    Ok(())
}

/// Reads from a [`source`] for so many milliseconds; gives Gb/s.
fn pull(from: &str, milliseconds: u64) -> io::Result<f64> {
    let mut stream = TcpStream::connect(from)?;
    let mut piece = vec![0; PIECE];
    rate_of(milliseconds, || stream.read(&mut piece))
}

/// Takes bytes by `take`, which says how many they were, for so many milliseconds; gives Gb/s.
fn rate_of(milliseconds: u64, mut take: impl FnMut() -> io::Result<usize>) -> io::Result<f64> {
    let mut take_for = |limit: Duration| -> io::Result<f64> {
        let (start, mut bytes) = (Instant::now(), 0_u64);
        while start.elapsed() < limit {
            let n = take()?;
            if n == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            bytes += n as u64;
        }
        Ok(gigabits(bytes, start.elapsed()))
    };
    // The start of a connection is not what is measured.
    take_for(Duration::from_millis(milliseconds / 5))?;
    take_for(Duration::from_millis(milliseconds))
}

/// Connects, with CUBIC from the first segment: the machine's default may be another, and one
/// that begins with BBR is paced for good, whatever it is told later.
fn connect_with_cubic(to: SocketAddr) -> io::Result<TcpStream> {
    let family = match to {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // This fails where there is none.
    let _ = set_tcp_congestion(&socket, "cubic");
    connect(&socket, &to)?;
    Ok(socket.into())
}

/// Writes to a [`sink`] for so many milliseconds; gives Gb/s, by what arrived.
fn push(to: &str, milliseconds: u64) -> io::Result<f64> {
    let mut stream = connect_with_cubic(to.parse().map_err(io::Error::other)?)?;
    let piece = vec![b'p'; PIECE];
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(milliseconds) {
        stream.write_all(&piece)?;
    }
    stream.shutdown(Shutdown::Write)?;
    let mut count = [0; 8];
    stream.read_exact(&mut count)?;
    Ok(gigabits(u64::from_be_bytes(count), start.elapsed()))
}

/// Sends back what comes to whoever connects to `at`, one at a time.
fn echo(at: &str) -> io::Result<()> {
    for stream in TcpListener::bind(at)?.incoming() {
        let mut stream = stream?;
        stream.set_nodelay(true)?;
        let mut piece = [0; 4096];
        while let Ok(n @ 1..) = stream.read(&mut piece) {
            if stream.write_all(&piece[..n]).is_err() {
                break;
            }
        }
    }
    Ok(())
}

/// Sends a byte to an [`echo`] and waits for it, so many times; prints the
/// median round trip in microseconds, and the 99th percentile.
fn ping(to: &str, times: u64) -> io::Result<()> {
    let mut stream = TcpStream::connect(to)?;
    stream.set_nodelay(true)?;
    let mut round_trip = || -> io::Result<Duration> {
        let start = Instant::now();
        let mut byte = [1];
        stream.write_all(&byte)?;
        stream.read_exact(&mut byte)?;
        Ok(start.elapsed())
    };
    for _ in 0..times / 10 {
        round_trip()?;
    }
    let mut all = (0..times)
        .map(|_| round_trip())
        .collect::<io::Result<Vec<_>>>()?;
    all.sort_unstable();
    let at = |share: usize| all[all.len() * share / 100].as_secs_f64() * 1e6;
    println!("{} {}", at(50), at(99));
    Ok(())
}

/// Serves by a [`Generator`] at `address`, on the TAP device of that name, until it is killed: each
/// further word is a TCP port and what is served there, as `80=http:1024`.
fn generate(device: &str, address: &str, services: &[String]) -> io::Result<()> {
    let service = |word: &String| {
        let (port, service) = word
            .split_once('=')
            .ok_or_else(|| io::Error::other(format!("{word:?} is not PORT=SERVICE")))?;
        let port = port.parse().map_err(io::Error::other)?;
        Ok((port, service.parse().map_err(io::Error::other)?))
    };
    let services: Vec<(u16, Service)> = services.iter().map(service).collect::<io::Result<_>>()?;
    let address = address.parse().map_err(io::Error::other)?;
    let config = TapConfig::attach(device).map_err(io::Error::other)?;
    let tap = Tap::open(&config).map_err(io::Error::other)?;
    let generator = Generator::new(Box::new(tap), address, &services).map_err(io::Error::other)?;
    let never = AtomicBool::new(false);
    generator
        .serve(Wait::Sleeping, &never)
        .map_err(io::Error::other)
}

/// Opens so many connections and keeps them until it is killed: without a word, or, with
/// the `path` of a file, after one request for it on each, whose answer it has read.
fn fill(to: &str, connections: u64, path: Option<&str>) -> io::Result<()> {
    let mut all = Vec::new();
    for _ in 0..connections {
        let mut stream = TcpStream::connect(to)?;
        if let Some(path) = path {
            ask(&mut stream, path)?;
        }
        all.push(stream);
    }
    println!("full");
    io::stdout().flush()?;
    loop {
        std::thread::park();
    }
}

/// Asks an HTTP server for a file, and reads it to its end; the connection stays.
fn ask(stream: &mut TcpStream, path: &str) -> io::Result<()> {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: here\r\n\r\n")?;
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let n = stream.read(&mut piece)?;
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        answer.extend_from_slice(&piece[..n]);
        if let Some(len) = answer_len(&answer)
            && answer.len() >= len
        {
            return Ok(());
        }
    }
}

/// How long an HTTP answer is, header and body, once its header is there.
fn answer_len(answer: &[u8]) -> Option<usize> {
    const END: &[u8] = b"\r\n\r\n";
    let header = answer.windows(END.len()).position(|w| w == END)? + END.len();
    let text = std::str::from_utf8(&answer[..header]).ok()?;
    let body = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let wanted = name.eq_ignore_ascii_case("content-length");
        wanted.then(|| value.trim().parse::<usize>().ok()).flatten()
    })?;
    Some(header + body)
}
