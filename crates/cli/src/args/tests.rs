use super::*;
use crate::values::LoopbackOwner;
use clap::{CommandFactory, Parser};

fn run(line: &str) -> Result<RunArguments, String> {
    let words = line.split_whitespace();
    match Arguments::try_parse_from(words)
        .map_err(|e| e.to_string())?
        .command
    {
        Command::Run(run) => Ok(*run),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_definition_is_sound() {
    Arguments::command().debug_assert();
}

#[test]
fn the_program_begins_at_the_first_word_that_is_not_ours() {
    let a = run("longshore run --mtu 9000 -- nginx -g x --mtu 3").unwrap();
    assert_eq!(a.program, ["nginx", "-g", "x", "--mtu", "3"]);
    assert_eq!(a.network.mtu, Some(9000));
    let a = run("longshore run curl -s http://x").unwrap();
    assert_eq!(a.program, ["curl", "-s", "http://x"]);
}

#[test]
fn all_of_run() {
    let a = run(
        "longshore run --port tap:t0 --addr 10.0.0.2/24 --gateway 10.0.0.1 \
                 --addr fd00::2/64 --gateway fd00::1 \
                 --loopback engine --expose 80:8080 --expose 127.0.0.1:81:81 --awake \
                 --capture f.pcapng -- x",
    )
    .unwrap();
    assert_eq!(String::from(a.engine.port.unwrap()), "tap:t0");
    let packet = run("longshore run --port packet:veth0 -- x").unwrap();
    assert_eq!(String::from(packet.engine.port.unwrap()), "packet:veth0");
    let (networks, automatic) = crate::address::Automatic::split(&a.network.addr);
    let addresses: Vec<_> = networks.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["10.0.0.2/24", "fd00::2/64"]);
    assert!(!automatic.any());
    let found = run("longshore run --port packet:veth0 --addr dhcp --addr slaac -- x").unwrap();
    let (networks, automatic) = crate::address::Automatic::split(&found.network.addr);
    assert!(networks.is_empty() && automatic.dhcp && automatic.slaac);
    assert_eq!(a.network.gateway.len(), 2);
    assert_eq!(a.network.loopback, Some(LoopbackOwner::Engine));
    assert_eq!(a.reach.expose.len(), 2);
    assert!(a.conduct.awake && a.trial.capture.is_some());
}

#[test]
fn what_is_wrong_is_said() {
    for (line, says) in [
        ("longshore run", "PROGRAM"),
        ("longshore run --mtu 67 -- x", "68 to 65535"),
        ("longshore run --port eth0 -- x", "tap:NAME"),
        ("longshore run --port tap:a/b -- x", "no interface name"),
        ("longshore run --port packet:eth%d -- x", "one interface"),
        ("longshore run --port dpdk:eth0 -- x", "packet:NAME"),
        ("longshore run --addr 10.0.0.2 -- x", "10.77.0.2/24"),
        ("longshore run --expose 80 -- x", "8080:80"),
        (
            "longshore run --engine s --mtu 1500 -- x",
            "cannot be used with",
        ),
        ("longshore run --nonsense -- x", "--nonsense"),
        (
            "longshore run --transport pcie-gen4x8 -- x",
            "bus:pcie-gen4x8",
        ),
        (
            "longshore run --transport bus:pcie-gen9x8 -- x",
            "pcie-gen6x16",
        ),
        ("longshore run --transport bus:cxl,fetch=0 -- x", "1 to 256"),
    ] {
        let error = run(line).unwrap_err();
        assert!(error.contains(says), "{line}: {error}");
    }
}
