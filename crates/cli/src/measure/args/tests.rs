//! The options of `longshore measure`: what is taken, and what is not.

use crate::args::{Arguments, Command};
use crate::measure::args::{BusArguments, Experiment};
use clap::Parser;

fn bus(line: &str) -> Result<BusArguments, String> {
    let words = line.split_whitespace();
    let parsed = Arguments::try_parse_from(words).map_err(|error| error.to_string())?;
    match parsed.command {
        Command::Measure(measure) => match measure.experiment {
            Some(Experiment::Bus(bus)) => Ok(bus),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_option_changes_the_model() {
    let model = |options: &str| {
        let arguments = bus(&format!("longshore measure bus {options}")).unwrap();
        format!("{:?}", arguments.model())
    };
    let usual = model("");
    for option in [
        "--bus cxl",
        "--doorbell 8",
        "--interrupts 1",
        "--fetch 8",
        "--completions 8",
        "--inline 256",
        "--queues 2",
        "--prefetch 32",
    ] {
        assert_ne!(model(option), usual, "{option}");
    }
}

#[test]
fn what_is_wrong_is_said() {
    for (options, says) in [
        ("--bus pcie-gen7x8", "pcie-gen6x16, cxl"),
        ("--size 2", "1, 64 and 512"),
        ("--json --csv", "cannot be used with"),
        ("--expose 8000:8000", "PROGRAM"),
        ("--size 1 -- x", "cannot be used with"),
        ("--fetch 0", "1..=256"),
        ("--queues 0", "1..=128"),
        ("--prefetch 257", "1..=256"),
    ] {
        let error = bus(&format!("longshore measure bus {options}")).unwrap_err();
        assert!(error.contains(says), "{options}: {error}");
    }
}

/// Conventional adapters are no part of a prediction, and a check has buses of its own.
#[test]
fn a_prediction_takes_no_option_that_would_change_nothing() {
    for (options, says) in [
        ("--fetch 8", "unexpected argument"),
        ("--queues 2", "unexpected argument"),
        ("--check --doorbell 8", "cannot be used with"),
        ("--check --interrupts 1", "cannot be used with"),
    ] {
        let line = format!("longshore measure predict {options}");
        let error = Arguments::try_parse_from(line.split_whitespace()).unwrap_err();
        assert!(error.to_string().contains(says), "{options}: {error}");
    }
}

#[test]
fn times_have_units() {
    let time = crate::measure::args::duration;
    for (text, ns) in [
        ("500ns", 500),
        ("2us", 2000),
        ("0us", 0),
        ("1ms", 1_000_000),
    ] {
        assert_eq!(time(text).unwrap().as_nanos(), ns);
    }
    for text in [
        "",
        "2",
        "us",
        "2 us",
        "-2us",
        "2s",
        "99999999999999999999us",
    ] {
        assert!(time(text).unwrap_err().contains("500ns"), "{text}");
    }
}

#[test]
fn options_for_the_program_go_to_run() {
    let arguments =
        bus("longshore measure bus --addr 10.0.0.2/24 --expose 80:80 -- nginx -g x").unwrap();
    assert_eq!(arguments.program, ["nginx", "-g", "x"]);
    let options = arguments.network.options();
    assert_eq!(options, ["--addr", "10.0.0.2/24", "--expose", "80:80"]);
}
