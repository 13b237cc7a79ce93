//! Options of `longshore run`: when and how requests, completions and payload cross between a
//! program and the engine.

use super::EngineArguments;
use crate::accept_on_data::AcceptOrder;
use crate::batching::BatchingOrder;
use crate::errors::Error;
use crate::messages::MessageOrder;
use crate::values::{Transport, YesNo};
use clap::Args;
use longshore_hostif::zero_copy::ZeroCopy;

#[derive(Debug, Args)]
pub(crate) struct CrossingArguments {
    /// When requests and completions cross between PROGRAM and the engine: adaptive, when they are
    /// of use (the default), or fixed:N,TIME, when N wait or the first of them has waited for TIME,
    /// as fixed:10,10ms in the paper of 2005, which each round trip then waits for twice. Not with
    /// --transport bus:MODEL, whose adapter fetches by the model
    #[arg(
        long,
        value_name = "adaptive|fixed:N,TIME",
        default_value_t,
        conflicts_with = "engine",
        hide_default_value = true
    )]
    pub(crate) batching: BatchingOrder,
    /// Wake PROGRAM once for each message of the connections that it accepts at PORT, and not for
    /// pieces of one; repeatable. RULE is delimiter:BYTES (with \r, \n, \t, \\ and \xNN), as
    /// '80=delimiter:\r\n\r\n', or length:WIDTH@OFFSET, for a length of so many bytes at that offset
    /// (0 without it) which says how many follow it; after commas le (the least significant byte
    /// first), adjust:N (so many more follow) and max:N (what is longer is no message). A piece
    /// wakes all the same when TIME is over (100ms), and when half of the receive buffer is full;
    /// whoever looks without sleeping sees it. Not with --transport bus:MODEL
    #[arg(long, value_name = "PORT=RULE[,TIME]", conflicts_with = "engine")]
    pub(crate) messages: Vec<MessageOrder>,
    /// Tell PROGRAM of the connections to PORT when they have data, with the first of it, or when
    /// TIME is over (100ms); repeatable. For servers whose clients speak first
    #[arg(long, value_name = "PORT[,TIME]", conflicts_with = "engine")]
    pub(crate) accept_on_data: Vec<AcceptOrder>,
    /// Whether little payload crosses with its descriptor, yes (the default), or all by itself.
    /// Not over a bus or a link
    #[arg(long, value_name = "yes|no")]
    pub(crate) immediate_data: Option<YesNo>,
    /// Whether pages of PROGRAM's are exchanged instead of copied where it receives into or sends
    /// whole pages: always; auto, where that is cheaper, by a measurement when so much is first
    /// received or sent, and for buffers that are sent again as they are; or never (the default).
    /// It needs Linux 6.11. Not over a bus or a link
    #[arg(
        long,
        value_name = "always|auto|never",
        default_value = "never",
        hide_default_value = true
    )]
    pub(crate) zero_copy: ZeroCopy,
}

impl CrossingArguments {
    /// Whether all of this is possible with that engine.
    ///
    /// # Errors
    /// The first that is not.
    pub(crate) fn check(&self, engine: &EngineArguments) -> Result<(), Error> {
        let is_bus = engine.transport != Transport::Memory;
        if self.batching != BatchingOrder::Adaptive && is_bus {
            return Err(Error::BatchingOnBus);
        }
        if !self.messages.is_empty() && is_bus {
            return Err(Error::MessagesOnBus);
        }
        MessageOrder::by_port(&self.messages)?;
        AcceptOrder::by_port(&self.accept_on_data)?;
        let is_memory = !is_bus && !engine.is_link();
        if self.immediate_data.is_some() && !is_memory {
            return Err(Error::ImmediateDataElsewhere);
        }
        if self.zero_copy != ZeroCopy::Never && !is_memory {
            return Err(Error::ZeroCopyElsewhere);
        }
        Ok(())
    }
}
