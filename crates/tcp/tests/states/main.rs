//! Every state against every kind of segment and user call (RFC 9293 sections 3.10.1
//! to 3.10.8, RFC 5961), one file a state.

#[path = "../support/script.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod script;

mod any;
mod close_wait;
mod closed;
mod closing;
mod established;
mod fin_wait_1;
mod fin_wait_2;
mod last_ack;
mod syn_received;
mod syn_sent;
mod time_wait;
mod user_timeout;
