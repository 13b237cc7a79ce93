//! What is found in an environment, and what is put into it.

use super::*;

#[test]
fn variables_are_found_by_their_whole_name() {
    let list = [c"AB=1", c"A=2", c"B="].map(Text::from);
    let list = [&list[..], &[Text::null()]].concat();
    let list = Strings::of(&list).expect("it ends");
    let value = |name| find(list, name);
    assert_eq!(value("A"), Some(c"2"));
    assert_eq!(value("B"), Some(c""));
    assert_eq!(value("C"), None);
    assert!(preloads(c"/a.so:/b.so", c"/b.so") && !preloads(c"/a.so", c"/b.so"));
}

#[test]
fn of_what_is_preloaded_one_library_is_left_out() {
    let left = |value: &str| {
        let value = CString::new(format!("LD_PRELOAD={value}")).unwrap();
        let list = [c"A=1", value.as_c_str(), c"B=2"].map(Text::from);
        let list = [&list[..], &[Text::null()]].concat();
        let mut block = without(Strings::of(&list).expect("it ends"), c"/ours.so")?;
        let list = Strings::of(block.parts().0).expect("it ends");
        let text = |entry: &CStr| entry.to_str().unwrap().to_owned();
        Some(list.iter().map(text).collect::<Vec<_>>().join(" "))
    };
    assert_eq!(left("/ours.so").as_deref(), Some("A=1 B=2"));
    assert_eq!(
        left("/ours.so:/a.so").as_deref(),
        Some("A=1 B=2 LD_PRELOAD=/a.so")
    );
    assert_eq!(
        left("/a.so /ours.so::/b.so").as_deref(),
        Some("A=1 B=2 LD_PRELOAD=/a.so:/b.so")
    );
    assert_eq!(left("/a.so"), None);
    assert_eq!(left(""), None);
}

const ENGINE: &str = "LONGSHORE_ENGINE=/engine";
const SESSION: &str = "LONGSHORE_SESSION=12";
const PRELOAD: &str = "LD_PRELOAD=/ours.so";

/// A program that has these in its environment.
fn ours() -> &'static Remembered {
    let entry = |text| CString::new(text).unwrap();
    Box::leak(Box::new(Remembered {
        engine: "/engine".into(),
        session: "12".into(),
        warnings: None,
        zero_copy: ZeroCopy::default(),
        is_in_valgrind: false,
        engine_entry: entry(ENGINE),
        session_entry: entry(SESSION),
        warnings_entry: None,
        zero_copy_entry: None,
        preload_entry: entry(PRELOAD),
        library: entry("/ours.so"),
    }))
}

/// What becomes of an environment; `None` if it stays as it is.
fn filled(given: &[&str], holds: Holds) -> Option<Vec<String>> {
    let given: Vec<CString> = given.iter().map(|e| CString::new(*e).unwrap()).collect();
    let list = given.iter().map(|entry| Text::from(entry.as_c_str()));
    let list: Vec<Text<'_>> = list.chain([Text::null()]).collect();
    let mut block = Carried::filled(ours(), Strings::of(&list).expect("it ends"), holds)?;
    let list = Strings::of(block.parts().0).expect("it ends");
    let text = |entry: &CStr| entry.to_str().unwrap().to_owned();
    Some(list.iter().map(text).collect())
}

fn reserved(name: &str) -> Holds {
    Holds::Reserved(name.parse().expect("a name"))
}

#[test]
fn what_a_process_holds_is_said_once() {
    let own = [ENGINE, SESSION, PRELOAD];
    let longest = "4294967295.4294967295";
    for (holds, said) in [
        (Holds::Sockets, "LONGSHORE_HELD=1".to_owned()),
        (reserved("3.17"), "LONGSHORE_HELD=3.17".to_owned()),
        (reserved(longest), format!("LONGSHORE_HELD={longest}")),
    ] {
        // Also where there is nothing else to be put, and where another has said so.
        for given in [
            vec![],
            own.to_vec(),
            [&["LONGSHORE_HELD=9.9"], &own[..], &["LONGSHORE_HELD=1"]].concat(),
            [&own[..], &["LD_PRELOAD=/theirs.so"]].concat(),
        ] {
            let all = filled(&given, holds).expect("it is said");
            let held = all.iter().filter(|e| e.starts_with("LONGSHORE_HELD="));
            assert_eq!(held.collect::<Vec<_>>(), [&said], "{given:?}");
            for entry in own {
                assert!(all.iter().any(|e| e == entry), "{entry} in {all:?}");
            }
        }
        // A library of the program's own.
        let all = filled(&["LD_PRELOAD=/theirs.so"], holds).expect("it is said");
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        assert_eq!(
            all,
            [
                ENGINE,
                SESSION,
                "LD_PRELOAD=/ours.so:/theirs.so",
                said.as_str()
            ]
        );
    }
    assert_eq!(filled(&own, Holds::Nothing), None);
    assert_eq!(filled(&["LONGSHORE_ENGINE="], reserved("3.17")), None);
}

/// A program that is to be in another session knows nothing of this one's reservations.
#[test]
fn a_reservation_is_named_within_its_session() {
    let last = |given: &[&str]| filled(given, reserved("3.17"))?.pop();
    let named = "LONGSHORE_HELD=3.17";
    assert_eq!(last(&[ENGINE, SESSION, PRELOAD]).as_deref(), Some(named));
    // One that names no whole session comes to this one.
    assert_eq!(
        last(&["LONGSHORE_SESSION=13", PRELOAD]).as_deref(),
        Some(named)
    );
    for others in [
        [ENGINE, "LONGSHORE_SESSION=13"],
        ["LONGSHORE_ENGINE=/other", SESSION],
    ] {
        let said = last(&[others[0], others[1], PRELOAD]);
        assert_eq!(said.as_deref(), Some("LONGSHORE_HELD=1"), "{others:?}");
    }
}

#[test]
fn what_is_said_of_what_a_process_holds_is_understood() {
    let mut text = [0; HELD_BYTES];
    assert_eq!(Holds::Nothing.entry(&mut text), None);
    for holds in [Holds::Sockets, reserved("3.17")] {
        let entry = holds.entry(&mut text).and_then(|e| e.to_str().ok());
        let value = entry.and_then(|e| e.strip_prefix("LONGSHORE_HELD="));
        assert_eq!(value.map(Holds::read), Some(holds));
    }
    assert_eq!(Holds::read("3.17.9"), Holds::Sockets);
}
