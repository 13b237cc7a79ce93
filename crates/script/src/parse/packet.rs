//! A segment in the notation of scripts: `F. 1:101(100) ack 1 win 1000 <ts 7>`.

use super::number_of;
use longshore_wire::tcp::TcpFlags;

/// A segment. The peer's are sent with exactly these fields; of the stack's, fields that
/// are not specified are not compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// The control bits.
    pub flags: TcpFlags,
    /// Its first position.
    pub start: Position,
    /// Bytes of payload.
    pub len: u32,
    /// Its acknowledgment position.
    pub ack: Option<Position>,
    /// The window field.
    pub window: Option<u16>,
    /// The urgent pointer.
    pub urgent: Option<u16>,
    /// The options.
    pub options: Options,
}

/// A position in a stream: 0 is the SYN, 1 the first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// Counted from the SYN.
    At(i64),
    /// Relative to the right edge of the window that the stack advertised last.
    Edge(i64),
}

/// The options of a segment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// `mss 1000`
    pub mss: Option<u16>,
    /// `wscale 7`
    pub window_scale: Option<u8>,
    /// `sackOK`
    pub sack_permitted: bool,
    /// `ts 100`: the peer's clock: TSval of its own segments, TSecr of the stack's.
    pub timestamp: Option<u32>,
    /// `sack 101:201 301:401`
    pub sack: Vec<(i64, i64)>,
}

impl Packet {
    /// Parses the text after the arrow.
    pub(super) fn parse(text: &str) -> Result<Packet, String> {
        let (text, options) = match text.split_once('<') {
            Some((front, options)) => {
                let options = options.trim().strip_suffix('>');
                (front, Options::parse(options.ok_or("`>` is missing")?)?)
            }
            None => (text, Options::default()),
        };
        let mut words = text.split_whitespace();
        let flags = flags(words.next().ok_or("the flags are missing")?)?;
        let (start, len) = range(words.next().ok_or("`first:last(length)` is missing")?)?;
        let mut packet = Packet {
            flags,
            start,
            len,
            ack: None,
            window: None,
            urgent: None,
            options,
        };
        while let Some(word) = words.next() {
            let value = words.next().ok_or("a number is missing")?;
            match word {
                "ack" => packet.ack = Some(position(value)?),
                "win" => packet.window = Some(number_of(value)?),
                "urg" => packet.urgent = Some(number_of(value)?),
                _ => return Err(format!("`{word}` means nothing")),
            }
        }
        if packet.ack.is_some() != flags.contains(TcpFlags::ACK) {
            return Err("`.` and `ack` come together".into());
        }
        Ok(packet)
    }
}

/// `S`, `F.`, `P.`, `-` ...
///
/// # Errors
/// A letter other than `SFRPU.`.
pub fn flags(text: &str) -> Result<TcpFlags, String> {
    if text == "-" {
        return Ok(TcpFlags::NONE);
    }
    text.chars().try_fold(TcpFlags::NONE, |flags, letter| {
        Ok(flags
            | match letter {
                'S' => TcpFlags::SYN,
                'F' => TcpFlags::FIN,
                'R' => TcpFlags::RST,
                'P' => TcpFlags::PSH,
                'U' => TcpFlags::URG,
                '.' => TcpFlags::ACK,
                _ => return Err(format!("`{letter}` is no flag")),
            })
    })
}

/// `1:101(100)`; the second number must be correct, which helps the reader.
fn range(text: &str) -> Result<(Position, u32), String> {
    let bad = || format!("`{text}` is not `first:last(length)`");
    let (first, rest) = text.split_once(':').ok_or_else(bad)?;
    let (last, len) = rest
        .strip_suffix(')')
        .and_then(|rest| rest.split_once('('))
        .ok_or_else(bad)?;
    let (first, last, len) = (position(first)?, position(last)?, number_of::<u32>(len)?);
    let covered = match (first, last) {
        (Position::At(first), Position::At(last))
        | (Position::Edge(first), Position::Edge(last)) => last - first,
        _ => return Err(bad()),
    };
    if covered != i64::from(len) {
        return Err(format!("`{text}` covers {covered} bytes"));
    }
    Ok((first, len))
}

/// `17`, `-3`, `edge`, `edge-1`, `edge+100`.
fn position(text: &str) -> Result<Position, String> {
    match text.strip_prefix("edge") {
        Some("") => Ok(Position::Edge(0)),
        Some(distance) => Ok(Position::Edge(number_of(distance)?)),
        None => Ok(Position::At(number_of(text)?)),
    }
}

impl Options {
    fn parse(text: &str) -> Result<Options, String> {
        let mut options = Options::default();
        for option in text.split(',') {
            let (name, value) = option.trim().split_once(' ').unwrap_or((option.trim(), ""));
            match name {
                "mss" => options.mss = Some(number_of(value)?),
                "wscale" => options.window_scale = Some(number_of(value)?),
                "sackOK" => options.sack_permitted = true,
                "ts" => options.timestamp = Some(number_of(value)?),
                "sack" => {
                    for block in value.split_whitespace() {
                        let (left, right) = block.split_once(':').ok_or("`left:right`")?;
                        options.sack.push((number_of(left)?, number_of(right)?));
                    }
                }
                _ => return Err(format!("`{name}` is no option")),
            }
        }
        Ok(options)
    }
}
