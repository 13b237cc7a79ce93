//! What who runs a shared engine does with it: signals, reading its configuration again.

use longshore_e2e::{Engine, Lab, Stack, eventually, run};
use rustix::process::Signal;
use std::time::Duration;

fn scenario(body: impl FnOnce(&Lab) + Send + 'static) {
    run(Stack::Longshore, Duration::from_secs(120), body);
}

/// Waits until the engine's log has this.
fn says(engine: &Engine<'_>, what: &str) {
    eventually(&format!("the engine says {what:?}"), || {
        engine.stderr().contains(what).then_some(())
    });
}

/// None of the signals that people send to services ends the engine at once; each does what
/// the manual says.
#[test]
fn signals_to_an_engine() {
    scenario(|lab| {
        let host = lab.host(0);
        let engine = host.engine("drain_seconds = 300\n[session]\nsockets = 64");
        let mut program = engine
            .cmd("/bin/sh")
            .args(["-c", "echo up; sleep 600"])
            .spawn();
        eventually("the program runs", || {
            program.stdout().contains("up").then_some(())
        });
        engine.signal(Signal::USR1);
        says(&engine, "packets");
        says(&engine, "of 64");
        engine.signal(Signal::USR2);
        says(&engine, "Local:Port");
        engine.signal(Signal::HUP);
        says(&engine, "nothing in it has changed");

        let text = std::fs::read_to_string(engine.config()).expect("the configuration");
        let other = text.replace("300", "200").replace("= 64", "= 128") + "processes = 7\n";
        let other = format!("mtu = 9000\nusers = [\"root\"]\n{other}");
        std::fs::write(engine.config(), &other).expect("write");
        engine.signal(Signal::HUP);
        says(&engine, "drain_seconds is 200 now, and was 300");
        says(&engine, "users is 0 now");
        says(&engine, "mtu stays not set; 9000 needs a restart");
        engine.cmd("/bin/true").check();
        let second = engine.cmd("sleep").arg("600").spawn();
        eventually("sessions that come have the new limits", || {
            let stat = engine.stat();
            let all = stat["sessions"].as_array().expect("a list");
            let of = |s: &serde_json::Value| s["sockets_max"].as_u64();
            let (least, most) = (
                all.iter().filter_map(of).min(),
                all.iter().filter_map(of).max(),
            );
            ((least, most) == (Some(64), Some(128))).then_some(())
        });
        drop(second);

        // One that is not right changes nothing.
        std::fs::write(engine.config(), format!("prt = 1\n{other}")).expect("write");
        engine.signal(Signal::HUP);
        says(&engine, "prt");
        says(&engine, "goes on with the configuration that it has");
        engine.cmd("/bin/true").check();

        engine.signal(Signal::QUIT);
        says(&engine, "takes no more programs");
        eventually("a new program is refused", || {
            let end = engine.cmd("/bin/true").run();
            (end.status.code() == Some(125)).then_some(())
        });
        program.assert_running();
        engine.signal(Signal::HUP);
        let _ = program.terminate();
        let end = engine.wait();
        assert!(end.status.success(), "{end:?}");
    });
}
