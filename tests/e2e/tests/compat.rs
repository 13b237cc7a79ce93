//! The harness of `make compat`: what others' tests say is read rightly, with the proof of which
//! stack carried it. The suites themselves take hours; this takes seconds.

use longshore_e2e::longshore;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a run of the harness on a module of CPython's tests has written.
fn run(module: &str, stacks: &str) -> serde_json::Value {
    let out = tempfile::tempdir().expect("make a directory");
    let harness = Path::new(env!("CARGO_MANIFEST_DIR")).join("../compat");
    let done = Command::new("/usr/bin/python3")
        .args(["-m", "longshore_compat", "--suites", "cpython", module])
        .args(["--stacks", stacks, "--jobs", "3", "--out"])
        .arg(out.path())
        .arg("--longshore")
        .arg(longshore())
        .current_dir(harness)
        .output()
        .expect("run python3");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(
        done.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&done.stdout)
    );
    let results: PathBuf = out.path().join("results.json");
    let text = std::fs::read_to_string(results).expect("the results");
    serde_json::from_str(&text).expect("JSON")
}

fn passed(results: &serde_json::Value, stack: &str) -> usize {
    let cases = results["results"]["cpython"][stack].as_object();
    let cases = cases.unwrap_or_else(|| panic!("nothing ran on {stack}: {results:#}"));
    cases.values().filter(|c| c["verdict"] == "pass").count()
}

/// A module runs on all three stacks, and its connections are seen where they belong.
#[test]
fn a_module_runs_on_each_stack() {
    let results = run("test_urllib2_localnet", "kernel,engine,wire");
    let on_kernel = passed(&results, "kernel");
    assert!(on_kernel > 15, "{results:#}");
    assert_eq!(passed(&results, "engine"), on_kernel);
    assert_eq!(passed(&results, "wire"), on_kernel);
    let carried = |stack: &str, what: &str| {
        let job = format!("cpython/test_urllib2_localnet {stack}");
        results["carried"][job][what].as_u64().expect("a count")
    };
    assert!(carried("kernel", "kernel_passive") > 0);
    for stack in ["engine", "wire"] {
        assert_eq!(carried(stack, "kernel_active"), 0);
        assert_eq!(carried(stack, "kernel_passive"), 0);
        assert!(carried(stack, "engine_passive") > 0);
    }
}
