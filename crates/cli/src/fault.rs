//! `--fault`: a bad network on purpose, to see that nothing is lost on it.

use longshore_ports::Faults;
use longshore_ports::fault::FaultConfig;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// What goes wrong with packets, the same in both directions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct FaultOrder {
    loss: f64,
    reorder: f64,
    duplicate: f64,
    corrupt: f64,
    seed: u64,
}

impl FaultOrder {
    pub(crate) fn config(&self) -> FaultConfig {
        let faults = Faults {
            loss: self.loss,
            duplicate: self.duplicate,
            corrupt: self.corrupt,
            reorder: self.reorder,
        };
        FaultConfig {
            tx: faults,
            rx: faults,
            seed: self.seed,
        }
    }
}

fn share(text: &str) -> Result<f64, String> {
    let bad = || format!("`{text}` is not a share: write 2% or 0.02");
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().map_err(|_| bad())? / 100.0,
        None => text.parse().map_err(|_| bad())?,
    };
    if (0.0..=1.0).contains(&share) {
        Ok(share)
    } else {
        Err(bad())
    }
}

impl FromStr for FaultOrder {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut order = Self::default();
        for part in text.split(',') {
            let (name, value) = part
                .split_once('=')
                .ok_or_else(|| format!("`{part}` is not NAME=VALUE"))?;
            match name {
                "loss" => order.loss = share(value)?,
                "reorder" => order.reorder = share(value)?,
                "duplicate" => order.duplicate = share(value)?,
                "corrupt" => order.corrupt = share(value)?,
                "seed" => {
                    order.seed = value
                        .parse()
                        .map_err(|_| format!("`{value}` is not a number"))?;
                }
                _ => {
                    return Err(format!(
                        "`{name}` is none of loss, reorder, duplicate, corrupt, seed"
                    ));
                }
            }
        }
        Ok(order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_read() {
        let order: FaultOrder = "loss=2%,reorder=0.5,seed=7".parse().unwrap();
        let config = order.config();
        assert_eq!(
            (config.tx.loss, config.rx.reorder, config.seed),
            (0.02, 0.5, 7)
        );
    }

    #[test]
    fn nonsense_is_refused() {
        for bad in ["", "loss", "loss=x", "loss=200%", "seed=-1", "speed=1"] {
            assert!(bad.parse::<FaultOrder>().is_err(), "{bad}");
        }
    }
}
