//! Addresses that nobody has typed: waiting for them before the first program runs, and
//! giving them back at the end. How they are found out is the stack's
//! (`stack/automatic`); `cli` calls this, and the loop when it ends.

use crate::lifetime::Prospect;
use crate::{Engine, EngineError};
use longshore_net::Cidr;
use longshore_stack::MissingAddress;
use std::net::IpAddr;
use std::time::Duration;

impl Engine {
    /// Waits until all addresses are there that are to be found out, or the engine is
    /// asked to stop. After `notice` it calls `slow`, once, with what is missing.
    ///
    /// # Errors
    /// [`EngineError::NoAddress`] after `timeout`, and as [`Engine::run`].
    pub fn acquire(
        &mut self,
        notice: Duration,
        timeout: Duration,
        slow: impl FnOnce(MissingAddress),
    ) -> Result<(), EngineError> {
        let begin = std::time::Instant::now();
        let mut slow = Some(slow);
        while let Some(missing) = self.stack.status().missing_addresses() {
            let waited = begin.elapsed();
            if self.lifetime.prospect(&mut self.stack) == Prospect::IsOver {
                return Ok(());
            }
            if waited >= timeout {
                // The one that is missing need not be that of IPv4.
                self.give_back();
                return Err(EngineError::NoAddress(missing));
            }
            if waited >= notice
                && let Some(slow) = slow.take()
            {
                slow(missing);
            }
            let next = self.stack.next_timeout();
            let next = next.map_or(u64::MAX, |t| t.since(self.clock.now()));
            let rest = Duration::from_micros(next).min(Duration::from_millis(100));
            self.turn_and_rest(rest)?;
        }
        Ok(())
    }

    /// Addresses that a server has given are ours no longer, and are given back to it.
    pub(crate) fn give_back(&mut self) {
        self.stack.give_addresses_back();
        // Whether that leaves is nobody's concern any more.
        let _ = self.stack.port_mut().flush();
    }

    /// Its addresses, with their prefixes, that are in use and reach beyond the link.
    pub fn addresses(&self) -> Vec<Cidr> {
        let in_use = |c: &Cidr| self.stack.status().is_local(c.address);
        let own = self.stack.status().addresses().filter(in_use);
        own.filter(|c| !matches!(c.address, IpAddr::V6(ip) if ip.is_unicast_link_local()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Turned;

    fn asks_for_an_address() -> Turned {
        Turned::with(|config| {
            config.addresses = Vec::new();
            config.automatic.dhcp = Some(b"a client".to_vec());
        })
    }

    #[test]
    fn an_engine_whose_addresses_are_typed_waits_for_none() {
        let mut world = Turned::new();
        let never = |_| panic!("nothing is missing");
        let acquired = world.engine.acquire(Duration::ZERO, Duration::ZERO, never);
        assert!(acquired.is_ok());
        let own: Vec<String> = world
            .engine
            .addresses()
            .iter()
            .map(Cidr::to_string)
            .collect();
        assert_eq!(own, ["10.0.0.1/24"]);
    }

    /// Its user is notified once that it takes long, and in the end what is missing.
    #[test]
    fn an_address_that_nobody_gives_is_waited_for_and_not_for_ever() {
        let mut world = asks_for_an_address();
        let mut missed = Vec::new();
        let timeout = Duration::from_millis(300);
        let acquired = world
            .engine
            .acquire(Duration::ZERO, timeout, |missing| missed.push(missing));
        let missing = MissingAddress::Dhcp;
        assert!(matches!(acquired, Err(EngineError::NoAddress(m)) if m == missing));
        assert_eq!(missed, [missing]);
        let began = std::time::Instant::now();
        let never = |_| panic!("it does not take as long");
        let acquired = world.engine.acquire(2 * timeout, timeout, never);
        assert!(acquired.is_err());
        assert!(began.elapsed() >= timeout);
        assert!(world.engine.addresses().is_empty());
        // It has asked for one.
        assert_ne!(world.engine.stack.port().counters().tx_frames, 0);
    }

    #[test]
    fn an_engine_that_is_told_to_stop_waits_for_no_address() {
        let mut world = asks_for_an_address();
        world.engine.drain(Duration::ZERO);
        let never = |_| panic!("it does not take long");
        let timeout = Duration::from_secs(60);
        assert!(world.engine.acquire(timeout, timeout, never).is_ok());
    }

    /// Nobody beyond its link reaches it at those of the link.
    #[test]
    fn addresses_of_the_link_are_not_among_those_that_are_told() {
        let mut world = Turned::with(|config| {
            config.addresses.push("fd00::1/64".parse().unwrap());
        });
        // Until they are known to be nobody else's.
        (0..5).for_each(|_| world.later(1_000_000));
        let own: Vec<String> = world
            .engine
            .addresses()
            .iter()
            .map(Cidr::to_string)
            .collect();
        assert_eq!(own, ["10.0.0.1/24", "fd00::1/64"]);
    }
}
