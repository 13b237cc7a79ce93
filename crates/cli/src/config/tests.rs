//! The configuration's keys, their defaults, and what is said of mistakes.

use super::*;
use longshore_hostif::Geometry;
use std::path::Path;

fn parse(text: &str) -> Result<Config, String> {
    Config::parse(text, &Files::direct(Path::new("engine.toml"))).map_err(|e| e.to_string())
}

const LEAST: &str = "port = \"tap:ls0\"\naddress = \"10.77.0.2/24\"\n";

#[test]
fn the_example_is_right_and_has_the_defaults() {
    let example = parse(EXAMPLE).unwrap();
    let least = parse(LEAST).unwrap();
    assert_eq!(example.addresses, least.addresses);
    assert_eq!(example.socket, least.socket);
    assert_eq!(example.loopback, least.loopback);
    assert_eq!(example.live.drain, least.live.drain);
    assert!(example.sandbox && least.sandbox);
    assert!(example.live.kernel_too && least.live.kernel_too);
    assert!(
        !parse(&format!("{LEAST}kernel_too = false\n"))
            .unwrap()
            .live
            .kernel_too
    );
    assert_eq!(example.live.geometry, least.live.geometry);
    assert_eq!(least.live.geometry, Geometry::DEFAULT);
    assert_eq!(example.live.user_limits, least.live.user_limits);
    assert_eq!(least.live.user_limits, UserLimits::default());
}

#[test]
fn every_key_is_in_the_example_even_if_commented_out() {
    let all: String = EXAMPLE
        .lines()
        .map(|line| line.strip_prefix("#: ").unwrap_or(line))
        .map(|line| line.replace("users = []", "users = [\"root\", 1000]"))
        .map(|line| format!("{line}\n"))
        .collect();
    let c = parse(&all).unwrap();
    assert!(c.mtu.is_some() && c.capture.is_some());
    assert!(c.live.user_timeout_option && !parse(LEAST).unwrap().live.user_timeout_option);
    assert_eq!(c.gateways.len(), 1);
    assert_eq!(c.live.users, [0, 1000]);
    assert_eq!(c.live.user_limits.memory, 4 << 30);
}

#[test]
fn limits_of_a_user_are_at_least_one() {
    for key in ["sockets", "memory_mib"] {
        let error = parse(&format!("{LEAST}[user]\n{key} = 0\n")).unwrap_err();
        assert!(error.contains(&format!("user.{key}")), "{error}");
    }
    let limits = parse(&format!("{LEAST}[user]\nsockets = 7\n"));
    assert_eq!(limits.unwrap().live.user_limits.sockets, 7);
}

#[test]
fn an_engine_may_have_several_addresses() {
    let c = parse(
        "port = \"tap:ls0\"\naddress = [\"10.77.0.2/24\", \"fd00::2/64\"]\n\
         gateway = [\"10.77.0.1\", \"fd00::1\"]\n",
    )
    .unwrap();
    assert_eq!(list(&c.addresses), "10.77.0.2/24 and fd00::2/64");
    assert_eq!(c.gateways.len(), 2);
    let wrong = |address: &str, gateway: &str| {
        parse(&format!(
            "port = \"tap:ls0\"\naddress = {address}\ngateway = {gateway}\n"
        ))
        .unwrap_err()
    };
    let two = r#"["10.77.0.2/24", "10.78.0.2/24"]"#;
    assert!(wrong(two, "[]").contains("one of IPv4"));
    assert!(wrong("[]", "[]").contains("needs one"));
    assert!(wrong("7", "[]").contains("list of texts"));
    let v6 = r#""fd00::2/64""#;
    assert!(wrong(v6, r#""10.77.0.1""#).contains("not in the network"));
    assert!(wrong(v6, r#"["fd00::1", "fd00::3"]"#).contains("each version"));
}

#[test]
fn an_unknown_key_is_named_with_its_line() {
    let error = parse(&format!("{LEAST}prot = 1\n")).unwrap_err();
    assert!(
        error.contains("prot") && error.contains("line 3"),
        "{error}"
    );
    let error = parse(&format!("{LEAST}[session]\nsocket = 1\n")).unwrap_err();
    assert!(
        error.contains("line 4") && error.contains("`sockets`"),
        "{error}"
    );
}

#[test]
fn wrong_values_are_explained() {
    for (text, says) in [
        ("port = \"tap:ls0\"", "address"),
        ("port = \"eth0\"\naddress = \"10.0.0.2/24\"", "tap:NAME"),
        ("port = \"tap:x\"\naddress = \"10.0.0.2\"", "prefix length"),
        (&format!("{LEAST}mtu = 67"), "mtu: 67"),
        (
            "port = \"tap:x\"\naddress = \"fd00::2/64\"\nmtu = 1279",
            "mtu: 1279 is too small for IPv6",
        ),
        (
            &format!("{LEAST}gateway = \"10.78.0.1\""),
            "not in the network",
        ),
        (&format!("{LEAST}gateway = \"10.77.0.2\""), "own address"),
        (
            &format!("{LEAST}users = [\"no such user\"]"),
            "no such user",
        ),
        (&format!("{LEAST}loopback = \"mine\""), "mine"),
        (&format!("{LEAST}[session]\nsockets = 0"), "session.sockets"),
        (
            &format!("{LEAST}[session]\nsend_mib = 99999999"),
            "send_mib",
        ),
        // With less no byte would ever be received.
        (
            &format!("{LEAST}[session]\nreceive_mib = 31"),
            "receive_mib: must be at least 32",
        ),
        (&format!("{LEAST}ecn = 6"), "ecn: 6"),
        (
            &format!("{LEAST}[access]\nbind = [\"forbid any\"]"),
            "access.bind: \"forbid any\" is no rule",
        ),
        (
            &format!("{LEAST}congestion = \"bic\""),
            "reno, cubic, dctcp, bbr",
        ),
        ("port = ", "line 1"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.contains(says), "{text}: {error}");
        assert!(error.contains("engine.toml"), "{error}");
    }
}

#[test]
fn users_are_found_in_passwd() {
    let passwd = "root:x:0:0::/root:/bin/sh\nwww-data:x:33:33::/var/www:/bin/false\n";
    assert_eq!(uid_in(passwd, "www-data"), Some(33));
    assert_eq!(uid_in(passwd, "www"), None);
}
