//! How samples are put to the parts of the work, and what is shown of them.

use super::*;

fn sampled(count: u64, owner: Owner, function: &str) -> Sampled {
    Sampled {
        count,
        owner,
        function: function.to_owned(),
    }
}

#[test]
fn shares_add_up_whatever_was_sampled() {
    let samples = [
        sampled(30, Owner::Program, "longshore_tcp::tcb::Tcb"),
        sampled(10, Owner::Kernel, "copy_user_generic"),
        sampled(5, Owner::Program, "0x00007f0000001234"),
    ];
    let taken = 45 * PERIOD_NS;
    for (ns, tcp_ip, unknown) in [
        (taken, 100.0 * 30.0 / 45.0, 100.0 * 5.0 / 45.0),
        // Half of the time was not sampled.
        (2 * taken, 100.0 * 15.0 / 45.0, 100.0 * 25.0 / 45.0),
        // The samples are all there is.
        (taken / 2, 100.0 * 30.0 / 45.0, 100.0 * 5.0 / 45.0),
    ] {
        let shares = shares_of(&samples, ns);
        assert!((shares.iter().sum::<f64>() - 100.0).abs() < 1e-9);
        assert!((shares[Part::TcpIp as usize] - tcp_ip).abs() < 1e-9);
        assert!((shares[Part::Unknown as usize] - unknown).abs() < 1e-9);
    }
    assert_eq!(shares_of(&[], 7)[Part::Unknown as usize], 100.0);
}

#[test]
fn a_row_is_of_one_run() {
    let run = |micros, data: f64| {
        let mut shares = [0.0; Part::ALL.len()];
        shares[Part::Data as usize] = data;
        shares[Part::TcpIp as usize] = 100.0 - data;
        Run {
            gigabits: 1.0,
            micros,
            shares,
            samples: Vec::new(),
        }
    };
    let runs = Runs::of(vec![run(9.0, 70.0), run(5.0, 10.0), run(7.0, 90.0)]);
    let share = |part: Part| runs.spread(|run| run.shares[part as usize]).unwrap();
    assert_eq!(share(Part::Data).median + share(Part::TcpIp).median, 100.0);
    assert_eq!(
        (share(Part::Data).least, share(Part::Data).median),
        (10.0, 90.0)
    );
    assert!(Runs::of(Vec::new()).spread(|run| run.micros).is_none());
}

/// A machine that is half as fast in one round is so for all configurations.
#[test]
fn packets_are_compared_within_a_round() {
    let runs = |micros: [f64; 3]| {
        let mut shares = [0.0; Part::ALL.len()];
        (shares[Part::TcpIp as usize], shares[Part::WakeUps as usize]) = (30.0, 10.0);
        let run = |micros| Run {
            gigabits: 1.0,
            micros,
            shares,
            samples: Vec::new(),
        };
        Runs::of(micros.map(run).into())
    };
    let configurations: Vec<_> = CONFIGURATIONS[..2].iter().collect();
    let all = [runs([100.0, 200.0, 110.0]), runs([40.0, 80.0, 66.0])];
    let sheet = packets(&configurations, &all);
    let handling = sheet.value("receiving, 9000", "handling").unwrap();
    assert!((handling - 26.4).abs() < 1e-9, "{handling}");
    assert_eq!(sheet.value("receiving, 9000", "of 1500's"), Some(40.0));
    assert_eq!(
        sheet.value("receiving, 1500", "wake-ups of handling"),
        Some(25.0)
    );
}
