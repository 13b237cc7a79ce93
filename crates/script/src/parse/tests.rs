use super::*;
use longshore_wire::tcp::TcpFlags;

fn one(line: &str) -> Step {
    Script::parse(line).unwrap().lines.remove(0).step
}

#[test]
fn a_script_is_read() {
    let script = Script::parse(
        "# What it shows.\n\
         linux: differs, because it may\n\
         in FIN-WAIT-1 with ts 100\n\
         \n\
         +0.25 < F. 1:101(100) ack edge-1 win 7 urg 3 <mss 5,sackOK,wscale 7,ts 9>  # why\n\
         > . 1:1(0) ack 102 <sack 3:4 5:6>\n\
         > nothing\n\
         read(100) = EAGAIN\n",
    )
    .unwrap();
    assert_eq!(script.linux, Linux::Differs("it may".into()));
    assert_eq!(script.begin.as_deref(), Some("FIN-WAIT-1"));
    assert_eq!(script.timestamps, Some(100));
    assert_eq!(script.lines.len(), 4);
    assert_eq!(script.lines[0].number, 5);
    assert_eq!(script.lines[0].pause, Duration::from_millis(250));
    let Step::Segment(Direction::In, packet) = &script.lines[0].step else {
        panic!("{:?}", script.lines[0]);
    };
    assert_eq!(packet.flags, TcpFlags::FIN | TcpFlags::ACK);
    assert_eq!((packet.start, packet.len), (Position::At(1), 100));
    assert_eq!(packet.ack, Some(Position::Edge(-1)));
    assert_eq!((packet.window, packet.urgent), (Some(7), Some(3)));
    assert_eq!(packet.options.mss, Some(5));
    assert_eq!(packet.options.window_scale, Some(7));
    assert_eq!(packet.options.timestamp, Some(9));
    assert!(packet.options.sack_permitted);
    let Step::Segment(Direction::Out, packet) = &script.lines[1].step else {
        panic!("{:?}", script.lines[1]);
    };
    assert_eq!(packet.options.sack, [(3, 4), (5, 6)]);
    assert_eq!(script.lines[2].step, Step::Silence);
    assert_eq!(
        script.lines[3].step,
        Step::Call(Call::Read(100), "EAGAIN".into())
    );
}

#[test]
fn calls_are_read() {
    for (text, call) in [
        ("connect()", Call::Connect),
        ("listen()", Call::Listen),
        ("accept()", Call::Accept),
        ("write(7)", Call::Write(7)),
        ("shutdown(SHUT_WR)", Call::ShutdownWrite),
        ("shutdown(SHUT_RD)", Call::ShutdownRead),
        ("close()", Call::Close),
        ("abort()", Call::Abort),
        ("error()", Call::Error),
        ("state()", Call::State),
    ] {
        assert_eq!(one(&format!("{text} = 0")), Step::Call(call, "0".into()));
    }
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    for (text, says) in [
        ("< . 1:1(0)", "come together"),
        ("< S 0:0(0) ack 1", "come together"),
        ("< S 0:5(0)", "covers 5"),
        ("< S 0:edge(0)", "first:last(length)"),
        ("< X 0:0(0)", "no flag"),
        ("< S 0:0(0) <mss>", "no number"),
        ("< S 0:0(0) <nop 1>", "no option"),
        ("< S 0:0(0) win", "number is missing"),
        ("< S 0:0(0) foo 3", "means nothing"),
        ("+x < S 0:0(0)", "seconds"),
        ("+-1 < S 0:0(0)", "negative"),
        ("read(100)", "answer"),
        ("read(x) = 0", "no number"),
        ("sleep(1) = 0", "no such call"),
        ("linux: differs", "reason"),
        ("linux: agrees", "linux: differs"),
        ("> nothing\nin CLOSED", "once"),
    ] {
        let error = Script::parse(&format!("\n{text}")).unwrap_err();
        assert!(error.starts_with("line "), "{error}");
        assert!(error.contains(says), "{text}: {error}");
    }
}
