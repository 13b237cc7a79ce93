//! The adapter: one worker, one closed loop over packets, descriptors, finished transfers and timers.

pub mod control;
