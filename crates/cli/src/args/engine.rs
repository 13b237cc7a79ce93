//! The options of `longshore engine`.

use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  longshore engine --example-config > engine.toml
  longshore engine --config engine.toml
  longshore run --engine /run/longshore/engine.sock -- nginx -g 'daemon off;'
  longshore engine --config engine.toml --link tcp:0.0.0.0:4077 --link-key /etc/longshore/link.key

Signals:
  TERM, INT, QUIT  take no new programs, wait for those there are to end, at most as long as
                   `drain_seconds` says, and end; at a second of these, end at once
  HUP              read the configuration again. Changes of sysctl, ecn, congestion,
                   user_timeout_option, kernel_too, batching, messages, accept_on_data,
                   users, drain_seconds, awake, access, user and session hold from then on,
                   for what begins then; the log says which of the others need a restart. A
                   configuration that is not right is refused as a whole
  USR1             write to the log what `longshore stat` shows
  USR2             write to the log what `longshore ss` shows

Exit status:
  0 if it ended by a signal, 128+N at once by a second one N, 125 if it could not run, 2 if the
  command line is wrong.")]
pub(crate) struct EngineArguments {
    /// The configuration
    #[arg(long, value_name = "FILE", required_unless_present = "example_config")]
    pub(crate) config: Option<PathBuf>,
    /// Let programs of other machines use the engine, by links that come in here: tcp:ADDR:PORT,
    /// unix:PATH, or vsock:CID:PORT (any as CID for all). Needs --link-key
    #[arg(long, value_name = "PLACE", requires = "link_key")]
    pub(crate) link: Option<longshore_link::Place>,
    /// The file with the key of links, 64 hexadecimal digits, which both ends have; whoever has
    /// it may use the engine as the user that it runs as
    #[arg(long, value_name = "FILE", requires = "link")]
    pub(crate) link_key: Option<PathBuf>,
    /// Keep all privileges: else the engine gives up capabilities, files and system calls that it
    /// does not need once it has opened its port. As `sandbox = false` in the configuration
    #[arg(long)]
    pub(crate) no_sandbox: bool,
    /// Print a complete configuration with comments, and end
    #[arg(long)]
    pub(crate) example_config: bool,
}
