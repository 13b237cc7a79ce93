//! The processor of the thread that runs the loop, and that of the program that asks most.

use super::*;
use crate::testing::Turned;
use longshore_stack::From;

/// Runs it in a thread of its own, which has an affinity of its own, with the processors that
/// it may use.
fn apart(body: impl FnOnce(Vec<usize>) + Send) {
    let of_thread = || {
        let set = sched_getaffinity(None).unwrap();
        body(
            (0..CpuSet::MAX_CPU)
                .filter(|cpu| set.is_set(*cpu))
                .collect(),
        );
    };
    std::thread::scope(|s| s.spawn(of_thread).join().unwrap());
}

fn only(processor: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(processor);
    set
}

fn now_on() -> CpuSet {
    sched_getaffinity(None).unwrap()
}

fn processors() -> Processors {
    Processors {
        may: now_on(),
        chosen: None,
        left: None,
    }
}

#[test]
fn a_thread_is_put_on_a_processor_and_let_go() {
    apart(|all| {
        let (whole, mut processors) = (now_on(), processors());
        assert!(!processors.choose(None), "it is free already");
        for cpu in &all {
            assert!(processors.choose(Some(*cpu)));
            assert_eq!(now_on(), only(*cpu));
            assert!(!processors.choose(Some(*cpu)), "it is there already");
        }
        // It leaves the last, and may be there again after that.
        assert!(!processors.choose(None), "it goes to none");
        let mut others = whole;
        others.unset(*all.last().unwrap());
        if others.count() != 0 {
            assert_eq!(now_on(), others);
        }
        assert!(!processors.choose(None));
        assert_eq!(now_on(), whole);
        assert!(!processors.choose(None));
        // Processors that it may not use, or that are none.
        processors.may = only(all[0]);
        sched_setaffinity(None, &only(all[0])).unwrap();
        for cpu in all
            .iter()
            .skip(1)
            .copied()
            .chain([CpuSet::MAX_CPU, usize::MAX])
        {
            assert!(!processors.choose(Some(cpu)));
            assert_eq!(now_on(), only(all[0]));
        }
    });
}

/// As by taskset(1) from outside.
#[test]
fn what_somebody_else_has_set_stays() {
    apart(|all| {
        let mut processors = processors();
        assert!(processors.choose(Some(all[0])));
        processors.chosen = Some(CpuSet::MAX_CPU - 1);
        // So it was set to another than was chosen.
        assert!(!processors.choose(None));
        assert_eq!(now_on(), only(all[0]));
        assert!(!processors.choose(None));
        assert_eq!(now_on(), only(all[0]));
        assert!(!processors.choose(Some(CpuSet::MAX_CPU - 1)));
        // Of those that it may use from then on one can be chosen.
        assert!(processors.choose(Some(all[0])));
    });
}

#[test]
fn a_thread_with_one_processor_or_that_is_to_be_let_alone_is_not_looked_at() {
    apart(|all| {
        let late = Instant(u64::MAX - 1);
        let free = Placer::of_this_thread(Placement::Scheduler, Instant(0));
        assert!(!free.is_due(late));
        let several = Placer::of_this_thread(Placement::Tried, Instant(0));
        assert_eq!(several.is_due(Instant(INTERVAL)), all.len() > 1);
        assert!(!several.is_due(Instant(INTERVAL - 1)));
        sched_setaffinity(None, &only(all[0])).unwrap();
        let one = Placer::of_this_thread(Placement::Tried, Instant(0));
        assert!(!one.is_due(late));
    });
}

/// A placer whose program is on that processor, as far as it has seen.
fn with_program(on: usize) -> Placer {
    let mut placer = Placer::of_this_thread(Placement::Tried, Instant(0));
    placer.asker.seen = Some(Seen {
        processor: on,
        waited: 0,
    });
    placer
}

#[test]
fn the_engine_follows_its_program_when_that_stays_away() {
    let mut placer = with_program(1);
    assert_eq!(placer.follow(), Some(1), "at once, the first time");
    placer.processors.chosen = Some(1);
    let seen_on = |placer: &mut Placer, processor| {
        placer.asker.seen = Some(Seen {
            processor,
            waited: 0,
        });
        placer.follow()
    };
    for _ in 0..3 {
        for _ in 1..GONE {
            assert_eq!(seen_on(&mut placer, 0), Some(1));
        }
        assert_eq!(seen_on(&mut placer, 1), Some(1), "it has come back");
    }
    for _ in 1..GONE {
        assert_eq!(seen_on(&mut placer, 0), Some(1));
    }
    assert_eq!(seen_on(&mut placer, 0), Some(0));
}

#[test]
fn the_program_that_asks_most_is_the_one_that_is_met_most() {
    let mut asker = Asker::default();
    let own = Some(std::process::id());
    let other = Some(1);
    let known = |asker: &Asker| asker.program.as_ref().map(|program| program.pid);
    assert!(asker.meet(own), "it is new");
    for _ in 0..10 {
        assert!(!asker.meet(own));
    }
    for _ in 1..SURE {
        assert!(!asker.meet(other));
        assert_eq!(known(&asker), own);
    }
    assert!(asker.meet(other));
    assert_eq!(known(&asker), other);
    // One that cannot be seen from here.
    for _ in 0..SURE {
        asker.meet(None);
    }
    assert_eq!((known(&asker), asker.look()), (None, None));
}

/// Its descriptors are closed, also where nothing is done any more.
#[test]
fn a_program_that_has_ended_is_let_go() {
    let mut placer = Placer::of_this_thread(Placement::Tried, Instant(0));
    let mut child = std::process::Command::new("sleep")
        .arg("60")
        .spawn()
        .unwrap();
    assert!(placer.asker.meet(Some(child.id())));
    let done = Done {
        frames: 0,
        bytes: 0,
        own_bytes: 0,
    };
    assert!(!placer.look(Instant(INTERVAL), done, None));
    assert!(placer.asker.program.is_some(), "it lives");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!placer.look(Instant(2 * INTERVAL), done, None));
    assert!(placer.asker.program.is_none());
}

#[test]
fn what_is_done_is_payload_of_frames_and_of_its_own_connections() {
    let before = Done {
        frames: 100,
        bytes: 10_000,
        own_bytes: 7,
    };
    let after = |frames: u64, bytes: u64, own_bytes: u64| Done {
        frames: 100 + frames,
        bytes: 10_000 + bytes,
        own_bytes: 7 + own_bytes,
    };
    assert_eq!(after(0, 0, 0).since(before), None);
    assert_eq!(after(FEW_FRAMES - 1, 50_000, 0).since(before), None);
    let some = FEW_FRAMES * (HEADERS + 10);
    assert_eq!(
        after(FEW_FRAMES, some, 0).since(before),
        Some(10 * FEW_FRAMES)
    );
    assert_eq!(after(FEW_FRAMES, 0, 0).since(before), Some(0));
    assert_eq!(after(0, 0, 500).since(before), Some(500));
}

/// Between two turns, and from then on with each interval.
#[test]
fn the_loop_looks_when_an_interval_is_over() {
    apart(|all| {
        let dir = tempfile::tempdir().unwrap();
        let (mut engine, _path, _wire) = crate::testing::engine(dir.path());
        let start = engine.clock.now();
        engine.placer = Placer::of_this_thread(Placement::Tried, start);
        for interval in 1..4 {
            let at = Instant(start.0 + interval * INTERVAL);
            assert_eq!(engine.placer.is_due(at), all.len() > 1);
            engine.turn_at(at).unwrap();
            engine.rest(true).unwrap();
            assert!(!engine.placer.is_due(at));
        }
    });
}

/// Whose process that is, the engine knows by the request that it has served last.
#[test]
fn the_loop_meets_the_process_that_it_has_served_last() {
    apart(|all| {
        let mut world = Turned::new();
        let [host] = world.programs();
        let start = world.engine.clock.now();
        world.engine.placer = Placer::of_this_thread(Placement::Tried, start);
        let channel = host.channel.index() as u16;
        world.engine.intake.last_served = Some(From {
            session: 0,
            channel,
        });
        // Something was done for programs, or else nobody is met.
        world.engine.stack.counters.own_bytes.cut_through += 1_000;
        world.engine.turn_at(Instant(start.0 + INTERVAL)).unwrap();
        world.engine.rest(true).unwrap();
        let met = world.engine.placer.asker.program.map(|program| program.pid);
        let expected = (all.len() > 1).then(std::process::id);
        assert_eq!(met, expected);
    });
}

/// Whoever looks at its counters sees how often the loop has gone to a program's processor.
#[test]
fn the_loop_counts_how_often_it_has_gone_to_a_processor() {
    apart(|all| {
        let may = now_on();
        let mut work = AtWork::on(all[0]);
        work.settle();
        // As if it was still to go there.
        sched_setaffinity(None, &may).unwrap();
        work.placer.processors.chosen = None;
        let dir = tempfile::tempdir().unwrap();
        let (mut engine, _path, _wire) = crate::testing::engine(dir.path());
        let start = engine.clock.now();
        work.placer.seen = (start, Done::default());
        work.placer.due = Instant(start.0 + INTERVAL);
        engine.placer = work.placer;
        engine.turn_at(Instant(start.0 + INTERVAL)).unwrap();
        engine.rest(true).unwrap();
        assert_eq!(now_on(), only(all[0]));
        assert_eq!(engine.stack.counters.event_loop.placements, 1);
    });
}

/// So long a wait for a processor is just worth a trial, in nanoseconds of an interval.
const LONG_WAIT: u64 = INTERVAL * 1_000 / WAITED_PART;
/// Intervals after which a program that waits in each of them is met surely enough, and has
/// waited in enough of them.
const BEFORE_TRIAL: usize = 9;
/// Intervals of a trial: one for what was under way, and those that are compared.
const TRIAL: usize = 9;

/// A placer, and the program that asks it: files say of that what those of /proc would.
struct AtWork {
    placer: Placer,
    now: Instant,
    done: Done,
    directory: tempfile::TempDir,
    processor: usize,
    waited: u64,
}

impl AtWork {
    /// None of those that there are: it is shown by files of the test's own.
    const PID: u32 = u32::MAX - 1;

    /// A program on this processor.
    fn on(processor: usize) -> Self {
        let mut work = Self {
            placer: Placer::of_this_thread(Placement::Tried, Instant(0)),
            now: Instant(0),
            done: Done::default(),
            directory: tempfile::tempdir().unwrap(),
            processor,
            waited: 0,
        };
        work.show();
        let shown = Program::shown_in(work.directory.path(), Self::PID).unwrap();
        work.placer.asker.program = Some(shown);
        work
    }

    fn show(&self) {
        // proc_pid_stat(5): what is behind the name begins with the third field, and the
        // processor is the 39th.
        let between = "0 ".repeat(36);
        let stat = format!("{} (program) {between}{}\n", Self::PID, self.processor);
        let directory = self.directory.path();
        std::fs::write(directory.join("stat"), stat).unwrap();
        let schedstat = format!("0 {} 0\n", self.waited);
        std::fs::write(directory.join("schedstat"), schedstat).unwrap();
    }

    /// Goes on for so many microseconds, for so many nanoseconds of which the program waits, and
    /// with so much payload; says whether the engine went to a processor at the end.
    fn go_on(&mut self, micros: u64, waited: u64, payload: u64) -> bool {
        self.go_on_for(Self::PID, micros, waited, payload)
    }

    fn go_on_for(&mut self, pid: u32, micros: u64, waited: u64, payload: u64) -> bool {
        self.now.0 += micros;
        self.waited += waited;
        self.show();
        if payload != 0 {
            self.done.frames += FEW_FRAMES;
            self.done.bytes += FEW_FRAMES * HEADERS + payload;
        }
        self.placer.look(self.now, self.done, Some(pid))
    }

    /// After how many intervals like this the engine goes to a processor, if it does soon.
    fn tried_after(&mut self, micros: u64, waited: u64) -> Option<usize> {
        (1..50).find(|_| self.go_on(micros, waited, 1_000))
    }

    /// Where it is put, if not on all processors.
    fn is_on(&self) -> Option<usize> {
        self.placer.processors.chosen
    }

    /// It is on the program's processor, where it gets more done.
    fn settle(&mut self) {
        assert!(self.tried_after(INTERVAL, LONG_WAIT).is_some());
        for _ in 0..TRIAL {
            self.go_on(INTERVAL, LONG_WAIT, 2_000);
        }
        assert_eq!(self.is_on(), Some(self.processor));
    }
}

#[test]
fn the_processor_of_a_program_that_waits_is_tried_and_left_where_no_more_is_done() {
    apart(|all| {
        let mut work = AtWork::on(all[0]);
        assert_eq!(work.tried_after(INTERVAL, LONG_WAIT), Some(BEFORE_TRIAL));
        assert_eq!(now_on(), only(all[0]));
        for _ in 1..TRIAL {
            assert!(
                !work.go_on(INTERVAL, LONG_WAIT, 1_000),
                "it is there already"
            );
            assert_eq!(work.is_on(), Some(all[0]));
        }
        assert!(!work.go_on(INTERVAL, LONG_WAIT, 1_000));
        assert_eq!(work.is_on(), None);
        // It is looked at again an interval later, and not before.
        let next = Instant(work.now.0 + INTERVAL);
        assert!(work.placer.is_due(next));
        assert!(!work.placer.is_due(Instant(next.0 - 1)));
    });
}

#[test]
fn nothing_is_tried_for_a_program_that_hardly_waits() {
    apart(|all| {
        assert_eq!(
            AtWork::on(all[0]).tried_after(INTERVAL, LONG_WAIT - 1),
            None
        );
    });
}

/// What was done in an interval that was slept through in part compares with nothing.
#[test]
fn intervals_that_were_slept_through_are_not_compared() {
    apart(|all| {
        let mut work = AtWork::on(all[0]);
        assert_eq!(work.tried_after(TOO_LONG, 2 * LONG_WAIT), None);
        let mut work = AtWork::on(all[0]);
        let tried = work.tried_after(TOO_LONG - 1, 2 * LONG_WAIT);
        assert_eq!(tried, Some(BEFORE_TRIAL));
    });
}

/// It is free after 200 milliseconds without work, whether it has slept or looked for some.
#[test]
fn an_engine_without_work_is_free_again() {
    apart(|all| {
        let mut work = AtWork::on(all[0]);
        work.settle();
        assert!(!work.go_on(19 * INTERVAL, 0, 0));
        assert_eq!(work.is_on(), Some(all[0]));
        assert!(!work.go_on(INTERVAL, 0, 0));
        assert_eq!(work.is_on(), None);
    });
}

/// What was found for one program does not hold for another.
#[test]
fn an_engine_is_free_when_another_program_asks_most() {
    apart(|all| {
        let mut work = AtWork::on(all[0]);
        work.settle();
        for _ in 1..SURE {
            work.go_on_for(std::process::id(), INTERVAL, 0, 2_000);
            assert_eq!(work.is_on(), Some(all[0]));
        }
        work.go_on_for(std::process::id(), INTERVAL, 0, 2_000);
        assert_eq!(work.is_on(), None);
    });
}

#[test]
fn the_engine_goes_after_its_program_to_each_processor_on_which_that_stays() {
    apart(|all| {
        let mut work = AtWork::on(all[0]);
        work.settle();
        // On one processor there is nowhere to go.
        for processor in all.iter().copied().skip(1).chain([all[0]]) {
            let before = work.processor;
            if processor == before {
                break;
            }
            work.processor = processor;
            for _ in 1..GONE {
                assert!(!work.go_on(INTERVAL, LONG_WAIT, 2_000));
                assert_eq!(now_on(), only(before));
            }
            assert!(work.go_on(INTERVAL, LONG_WAIT, 2_000));
            assert_eq!(now_on(), only(processor));
        }
    });
}

/// Of both directions, and of what needs no packet.
#[test]
fn what_the_loop_has_done_is_what_its_port_has_carried() {
    let mut world = crate::testing::Turned::new();
    let [mut host] = world.programs();
    // A neighbour is asked for.
    let socket = host.open(longshore_hostif::SocketKind::Stream);
    let peer: std::net::SocketAddr = "10.0.0.9:80".parse().unwrap();
    host.put(longshore_hostif::Request::Connect {
        socket,
        tag: 1,
        waiter: None,
        peer: peer.into(),
    });
    for _ in 0..5 {
        let any = longshore_ports::TxFrame::whole(&[0xff; 60]);
        longshore_ports::Port::send(&mut world.wire, &any).unwrap();
    }
    world.run_pending();
    world.engine.stack.counters.own_bytes.cut_through = 7;
    let port = world.engine.stack.port().counters();
    assert!(port.rx_frames == 5 && port.tx_frames != 0);
    let done = Done {
        frames: port.rx_frames + port.tx_frames,
        bytes: port.rx_bytes + port.tx_bytes,
        own_bytes: 7,
    };
    world.engine.placer.due = Instant(0);
    world.engine.rest(true).unwrap();
    assert_eq!(world.engine.placer.seen.1, done);
}
