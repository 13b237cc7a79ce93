//! What `make test` says at its end (`scripts/test.sh`), of targets that pass, fail and skip.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// In the place of make: the target is the last argument.
const MAKE: &str = r#"#!/bin/bash
case ${@: -1} in
  tests) echo "     Summary [   1.2s] 5 tests run: 5 passed, 1 skipped" ;;
  failing-tests)
    echo "        FAIL [   0.1s] (1/2) longshore-some::binary some_test"
    echo "     Summary [   1.2s] 2 tests run: 1 passed, 1 failed, 0 skipped"
    exit 100 ;;
  lint) ;;
  failing-lint) echo "error: what clippy says"; exit 2 ;;
  skipping) . scripts/env.sh; skip "some step" "it needs another machine" ;;
esac
"#;

/// Whether `make test` of these targets has passed, and what it said.
fn summary(targets: &[&str], environment: &[(&str, &str)]) -> (bool, String) {
    let place = tempfile::tempdir().expect("a directory");
    let make = place.path().join("make");
    std::fs::write(&make, MAKE).expect("write");
    std::fs::set_permissions(&make, PermissionsExt::from_mode(0o755)).expect("chmod");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/test.sh");
    let output = Command::new(script)
        .args(targets)
        .env_remove("CI")
        .env_remove("LONGSHORE_REQUIRE_ROOT")
        .env("CARGO_TARGET_DIR", place.path().join("target"))
        .env("MAKE", &make)
        .envs(environment.iter().copied())
        .output()
        .expect("bash");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.success(), said)
}

#[test]
fn all_passes_if_each_target_does() {
    let (passed, said) = summary(&["tests", "lint"], &[]);
    assert!(passed, "{said}");
    assert!(said.contains("Nothing was skipped."), "{said}");
    assert!(said.ends_with("6 passed, 0 failed, 0 skipped\n"), "{said}");
}

/// Whether it has tests that are counted or not.
#[test]
fn a_target_that_fails_fails_all_and_those_after_it_run() {
    for (failing, passed_of_it, said_of_it) in [
        ("failing-tests", 1, "longshore-some::binary some_test\n"),
        ("failing-lint", 0, "FAILED: failing-lint ("),
    ] {
        let (passed, said) = summary(&[failing, "tests", "lint"], &[]);
        assert!(!passed, "{said}");
        assert!(said.contains(said_of_it), "{said}");
        let counts = format!("{} passed, 1 failed, 0 skipped\n", passed_of_it + 6);
        assert!(said.ends_with(&counts), "{said}");
    }
}

#[test]
fn what_is_skipped_is_listed_and_fails_where_nothing_may_be() {
    let (passed, said) = summary(&["skipping", "tests"], &[("CI", "false")]);
    assert!(passed, "{said}");
    assert!(
        said.contains("\n  some step: it needs another machine\n"),
        "{said}"
    );
    assert!(said.ends_with("5 passed, 0 failed, 1 skipped\n"), "{said}");
    for variable in ["CI", "LONGSHORE_REQUIRE_ROOT"] {
        let (passed, said) = summary(&["skipping", "tests"], &[(variable, "1")]);
        assert!(!passed, "{said}");
        assert!(said.contains("FAILED: skipping ("), "{said}");
        assert!(said.ends_with("5 passed, 1 failed, 0 skipped\n"), "{said}");
    }
}
