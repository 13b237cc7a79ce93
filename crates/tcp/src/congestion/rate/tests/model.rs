//! The sampler against one that keeps its records in a list.

use super::*;
use std::collections::VecDeque;

/// A send: where it ends, when it was, and how far delivery was then.
#[derive(Debug, Clone, Copy)]
struct Sent {
    end: Pos,
    at: u64,
    delivered_at: u64,
    first_sent: u64,
    delivered: u64,
    limited: bool,
    void: bool,
}

#[derive(Debug, Default)]
struct Model {
    sends: VecDeque<Sent>,
    next: Pos,
    delivered: u64,
    delivered_at: u64,
    first_sent: u64,
    app_limited: u64,
}

impl Model {
    fn sends(&mut self, end: Pos, idle: bool, cwnd: u32, now: u64) {
        if idle {
            (self.first_sent, self.delivered_at) = (now, now);
        }
        self.next = end + Pos::from(cwnd / RECORDS_PER_WINDOW);
        if self.sends.len() < RECORDS {
            self.sends.push_back(Sent {
                end,
                at: now,
                delivered_at: self.delivered_at,
                first_sent: self.first_sent,
                delivered: self.delivered,
                limited: self.app_limited != 0,
                void: false,
            });
        }
    }

    /// The rate, `prior`, whether the user was the limit, and the round trip.
    fn delivers(&mut self, d: &Delivered, now: u64) -> (u64, u64, bool, u32) {
        self.delivered += u64::from(d.newly);
        self.delivered_at = now;
        if self.delivered > self.app_limited {
            self.app_limited = 0;
        }
        let count = self.sends.iter().filter(|s| s.end <= d.reached).count();
        let latest = self.sends.drain(..count).rfind(|s| !s.void);
        self.first_sent = now - d.age;
        let Some(s) = latest else {
            return (0, 0, false, 0);
        };
        let interval = (s.at - s.first_sent).max(now - s.delivered_at);
        let rate = if interval > 0 && interval >= d.min_rtt {
            (self.delivered - s.delivered) * SECOND / interval
        } else {
            0
        };
        let rtt = if d.in_order { (now - s.at).max(1) } else { 0 };
        (rate, s.delivered, s.limited, rtt as u32)
    }
}

#[derive(Debug, Clone)]
enum Step {
    Send(Pos),
    Again(Pos, Pos),
    Deliver {
        share: u8,
        in_order: bool,
        age: u64,
        min_rtt: u64,
    },
    Limit(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1..4_i64).prop_map(|n| Step::Send(n * 100)),
        1 => (0..40_i64, 1..10_i64).prop_map(|(at, n)| Step::Again(at * 50, n * 50)),
        3 => (1..5_u8, any::<bool>(), 0..4_u64, 0..6_u64).prop_map(
            |(share, in_order, age, min_rtt)| Step::Deliver {
                share,
                in_order,
                age: age * 10,
                min_rtt: min_rtt * 10,
            }
        ),
        1 => (0..10_u64).prop_map(|n| Step::Limit(n * 100)),
    ]
}

proptest! {
    #[test]
    fn it_samples_what_the_list_does(
        steps in prop::collection::vec((step(), 0..3_u64), 1..80),
        cwnd in 0..2_000_u32,
    ) {
        let mut now = 1_000;
        let (mut sampler, mut model) = (RateSampler::new(), Model::default());
        sampler.start(0, Instant(now));
        (model.delivered_at, model.first_sent) = (now, now);
        let (mut end, mut una) = (0, 0);
        for (step, pause) in steps {
            now += pause * 10;
            match step {
                Step::Send(len) => {
                    let idle = una == end;
                    end += len;
                    prop_assert_eq!(sampler.wants(end), end > model.next);
                    prop_assert!(!sampler.wants(model.next) && sampler.wants(model.next + 1));
                    if sampler.wants(end) || idle {
                        sampler.on_sent(end, idle, cwnd, Instant(now));
                        model.sends(end, idle, cwnd, now);
                    }
                }
                Step::Again(at, len) => {
                    let (from, to) = (una + at, una + at + len);
                    sampler.on_retransmitted(from, to);
                    let within = |s: &&mut Sent| from < s.end && s.end <= to;
                    model.sends.iter_mut().filter(within).for_each(|s| s.void = true);
                }
                Step::Deliver { share, in_order, age, min_rtt } => {
                    let to = una + (end - una) * Pos::from(share) / 4;
                    let to = to.min(end);
                    let d = Delivered {
                        reached: to,
                        in_order,
                        newly: (to - una) as u32,
                        age,
                        min_rtt,
                    };
                    una = to;
                    let s = sampler.on_delivered(&d, Instant(now));
                    let expected = model.delivers(&d, now);
                    prop_assert_eq!((s.rate, s.prior, s.app_limited, s.rtt), expected);
                    prop_assert_eq!((s.total, s.newly), (model.delivered, d.newly));
                }
                Step::Limit(in_flight) => {
                    sampler.on_app_limited(in_flight);
                    model.app_limited = (model.delivered + in_flight).max(1);
                }
            }
            prop_assert_eq!(usize::from(sampler.len), model.sends.len());
        }
    }
}
