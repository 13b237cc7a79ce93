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

    /// The address that a server has given is given back to it, as the engine ends.
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
mod tests;
