//! The document says of every word and of every descriptor what the code says, and no more.

use super::*;
use crate::abi::handshake::{MESSAGE_BYTES, Message, Refusal};
use crate::abi::{BadDescriptor, BlockFlags, Completion, Data, Features, Request, SocketState};
use crate::transport::Arena;
use std::fmt::Debug;
use std::sync::atomic::Ordering;

const DOCUMENT: &str = include_str!("../../../../../docs/host-adapter-interface.md");

/// The rows of the table under a heading, without its head; the last cell of each is prose.
fn rows_under(heading: &str) -> Vec<Vec<&'static str>> {
    let section = DOCUMENT.split("\n## ").find(|s| s.starts_with(heading));
    let section = section.unwrap_or_else(|| panic!("no section {heading}"));
    let lines = section.lines().filter_map(|line| line.strip_prefix("| "));
    let cells = |line: &'static str| {
        let line = line.strip_suffix(" |").expect("a whole row");
        line.split(" | ").map(str::trim).collect()
    };
    lines.skip(2).map(cells).collect()
}

/// Compares all cells but the last, which is to say something.
fn assert_documented(heading: &str, listed: &[Vec<String>]) {
    let rows = rows_under(heading);
    let (documented, prose): (Vec<_>, Vec<_>) = rows
        .iter()
        .map(|row| (row[..row.len() - 1].to_vec(), row[row.len() - 1]))
        .unzip();
    let as_rows = |rows: &[Vec<String>]| -> Vec<String> {
        rows.iter()
            .map(|row| format!("| {} |", row.join(" | ")))
            .collect()
    };
    let documented: Vec<Vec<String>> = documented
        .into_iter()
        .map(|row| row.into_iter().map(String::from).collect())
        .collect();
    let (ours, theirs) = (as_rows(listed), as_rows(&documented));
    for (row, said) in theirs.iter().zip(prose) {
        assert!(said.len() > 2, "nothing is said of {row}");
    }
    assert_eq!(
        theirs,
        ours,
        "to stand under {heading}:\n{}",
        ours.join("\n")
    );
}

fn names(sides: Sides) -> String {
    let all = [
        (Sides::HOST, "host"),
        (Sides::ADAPTER, "adapter"),
        (Sides::AGENT, "agent"),
    ];
    let named: Vec<&str> = all
        .into_iter()
        .filter_map(|(side, name)| sides.contains(side).then_some(name))
        .collect();
    if named.is_empty() {
        "nobody".into()
    } else {
        named.join(", ")
    }
}

/// Lists words of a part that begin at `base` there.
fn list(part: &Part, base: usize, before: &str, words: &[Word], to: &mut Vec<Vec<String>>) {
    for word in words {
        let name = format!("{before}{}", word.name);
        let at = base + word.at;
        if !word.inside.is_empty() {
            list(part, at, &format!("{name}."), word.inside, to);
            continue;
        }
        let metered = format!("{:?}", word.metered).to_lowercase();
        to.push(vec![
            part.name.into(),
            if name.is_empty() { "all".into() } else { name },
            at.to_string(),
            word.len.to_string(),
            names(word.written),
            names(word.read),
            metered,
        ]);
    }
}

#[test]
fn every_word_is_documented() {
    let mut listed = Vec::new();
    for part in &PARTS {
        list(part, 0, "", part.words, &mut listed);
    }
    assert_documented("The words", &listed);
}

/// Whether the document has this row, which may go on.
fn assert_row(cells: &[String]) {
    let row = format!("\n| {} |", cells.join(" | "));
    assert!(DOCUMENT.contains(&row), "to stand in the document:{row}");
}

#[test]
fn where_each_part_lies_is_documented() {
    let counts = [
        "1",
        "channels x workers",
        "workers - 1",
        "waiters",
        "sockets",
        "send chunks",
        "channels x sockets / 64",
        "channels x workers x 1,024",
        "channels x workers x 1,024",
        "sockets",
        "sockets x 256",
        "sockets x 256",
        "send chunks",
        "receive chunks",
    ];
    for (part, count) in PARTS.iter().zip(counts) {
        assert_row(&[part.name.into(), count.into(), part.stride.to_string()]);
    }
    let g = Geometry {
        workers: 3,
        rcv_chunks: 5,
        ..Geometry::SMALL
    };
    let offsets = Offsets::of(&g);
    let ends = offsets.parts().into_iter().chain([offsets.end]);
    let mut begin = 0;
    for ((part, count), end) in PARTS.iter().zip(counts).zip(ends) {
        let factors = count.replace(',', "");
        let mut product = 1;
        for factor in factors.split(" x ") {
            product *= match factor {
                "channels" => g.channels,
                "workers" => g.workers,
                "workers - 1" => g.workers - 1,
                "waiters" => g.waiters,
                "sockets" => g.sockets,
                "sockets / 64" => g.sockets / 64,
                "send chunks" => g.snd_chunks,
                "receive chunks" => g.rcv_chunks,
                number => number.parse().unwrap(),
            };
        }
        let len = product as usize * part.stride;
        assert_eq!((begin + len).next_multiple_of(4096), end, "{}", part.name);
        begin = end;
    }
}

#[test]
fn features_refusals_and_states_are_documented_by_their_numbers() {
    for (name, feature) in Features::all().iter_names() {
        assert_row(&[format!("`{name}`"), feature.bits().to_string()]);
    }
    for number in 1..=7 {
        let mut bytes = Message::Refused(Refusal::Version).encode();
        bytes[16] = number;
        let Ok(Message::Refused(why)) = Message::decode(&bytes) else {
            panic!("no refusal {number}");
        };
        assert_row(&[number.to_string(), format!("{why:?}")]);
    }
    let states = [
        SocketState::Free,
        SocketState::Open,
        SocketState::Listening,
        SocketState::Connecting,
        SocketState::Connected,
        SocketState::Closing,
        SocketState::Dead,
        SocketState::Early,
    ];
    for (number, state) in states.into_iter().enumerate() {
        assert_eq!(state as usize, number);
        assert_row(&[number.to_string(), format!("{state:?}")]);
    }
    for (name, flag) in BlockFlags::all().iter_names() {
        assert_row(&[flag.bits().to_string(), name.into()]);
    }
}

/// A value's name, and those of its fields, as it is printed.
fn name_and_fields(value: &dyn Debug) -> (String, String) {
    let text = format!("{value:?}");
    let end = text.find([' ', '(']).unwrap_or(text.len());
    let (mut depth, mut fields, mut word) = (0, Vec::new(), String::new());
    for c in text[end..].chars() {
        match c {
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' => depth -= 1,
            ':' if depth == 1 => fields.push(std::mem::take(&mut word)),
            ',' => word.clear(),
            c if depth == 1 && !c.is_whitespace() => word.push(c),
            _ => {}
        }
    }
    (text[..end].into(), fields.join(", "))
}

/// The kinds that a decoder knows.
fn kinds<T: Debug>(decode: impl Fn(u64) -> Option<T>) -> Vec<Vec<String>> {
    let known = (0..=255).filter_map(|kind| {
        let (name, fields) = name_and_fields(&decode(kind)?);
        Some(vec![kind.to_string(), name, fields])
    });
    known.collect()
}

#[test]
fn every_descriptor_is_documented() {
    // Well formed in all, but that one of two addresses takes those of IPv4.
    let message = |kind| [kind, 0, 1, 0, 0, 0, 0, 0];
    let addresses = |kind| [kind, 0, 4, 0, 0, 4, 0, 0];
    let request = |kind| match Request::decode(&message(kind)) {
        Err(BadDescriptor::Kind(_)) => None,
        Err(BadDescriptor::Field { .. }) => Some(Request::decode(&addresses(kind)).unwrap()),
        Ok(known) => Some(known),
    };
    let data = |kind| Data::decode(&[kind | 1 << 16, 0, 1 << 32, 0, 0, 0, 0, 0]);
    let completion = |kind| match Completion::decode(&message(kind)) {
        Err(BadDescriptor::Kind(_)) => None,
        known => Some(known.unwrap()),
    };
    let mut requests = kinds(request);
    for row in &mut requests {
        let decoded = row[0].parse().ok().and_then(request);
        let is_answered = decoded.is_some_and(|request| request.asked().is_some());
        row.push(if is_answered { "Done" } else { "nothing" }.into());
    }
    assert_documented("Requests", &requests);
    let mut completions = kinds(completion);
    completions.extend(kinds(data));
    completions.sort_by_key(|row| row[0].parse::<u8>().unwrap());
    assert_documented("Completions", &completions);
}

/// The second word of a message: its kind, and what its sender speaks.
fn word_of_kind(message: &[u8; MESSAGE_BYTES]) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| message[8 + i]))
}

#[test]
fn every_message_of_the_handshake_is_documented() {
    let decode = |kind: u64| {
        let mut bytes = [0; MESSAGE_BYTES];
        let begin = Message::Known.encode();
        bytes[..8].copy_from_slice(&begin[..8]);
        bytes[8..16].copy_from_slice(&(kind | word_of_kind(&begin) & !0xffff).to_le_bytes());
        Message::decode(&bytes).ok()
    };
    let listed: Vec<_> = kinds(decode)
        .into_iter()
        .map(|row| row[..2].to_vec())
        .collect();
    assert_documented("The handshake", &listed);
}

#[test]
fn a_place_is_that_of_what_lies_there() {
    let geometry = Geometry::SMALL;
    let arena = Arena::create(geometry).unwrap();
    let begin = std::ptr::from_ref(arena.header()) as usize;
    let named = |at: usize| {
        let place = place_of(&geometry, at - begin).unwrap();
        (place.part, place.index, place.word.name)
    };
    let at = |word: &dyn std::any::Any| std::ptr::from_ref(word).cast::<u8>() as usize;
    let block = arena.block(3);
    block.begin(SocketState::Open, BlockFlags::empty());
    assert_eq!(
        named(at(&block.generation)),
        ("socket block", 3, "generation")
    );
    assert_eq!(named(at(&block.snd.edge)), ("socket block", 3, "edge"));
    assert_eq!(named(at(&block.rcv.limit)), ("socket block", 3, "limit"));
    assert_eq!(
        named(at(&block.unreported_limit) + 3),
        ("socket block", 3, "unreported_limit")
    );
    let header = arena.header();
    assert_eq!(named(at(&header.closed)), ("header", 0, "closed"));
    assert_eq!(named(at(&header.engine)), ("header", 0, "engine"));
    let flags = at(&header.requests_pending.channels[15]);
    assert_eq!(named(flags), ("header", 0, "channels"));
    let asking = at(&arena.control(2).asking);
    assert_eq!(named(asking), ("channel control", 2, "asking"));
    let held = at(&arena.held(1)[0]);
    assert_eq!(named(held), ("held sockets", 1, ""));
    let waiter = at(&arena.waiters()[5].owner);
    assert_eq!(named(waiter), ("waiter", 5, ""));
    let entry = arena.rcv_directory(1).entry(0);
    entry.store(2, Ordering::Relaxed);
    assert_eq!(named(at(entry)).0, "receive directory entry");
    let place = arena.rcv_place(3, CHUNK - 1, 1).unwrap();
    let last = place_of(&geometry, place).unwrap();
    assert_eq!((last.part, last.index), ("receive chunk", 3));
    let place = arena.snd_place(2, 0, 1).unwrap();
    let first = place_of(&geometry, place).unwrap();
    assert_eq!((first.part, first.index), ("send chunk", 2));
    // Between the words of the header.
    assert!(place_of(&geometry, 40).is_none());
}

#[test]
fn each_part_begins_with_its_first_value() {
    let geometry = Geometry::DEFAULT;
    for at in Offsets::of(&geometry).parts() {
        if let Some(place) = place_of(&geometry, at) {
            assert_eq!((place.index, place.begins), (0, at), "{}", place.part);
        }
    }
    // Within a word of four bytes.
    let version = std::mem::offset_of!(Header, version);
    for at in version..version + 4 {
        assert_eq!(place_of(&geometry, at).unwrap().begins, version);
    }
}
