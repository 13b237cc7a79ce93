//! The program `longshore`: `run` a program on an engine, serve many with one
//! `engine`, see what engines do with `stat` and `ss`, and `measure` what crosses.
//!
//! It owns what surrounds an engine: processes, namespaces, devices, signals,
//! exit codes, and what a user reads. Each command has a file; `errors` has all
//! that can go wrong for a user.

mod accept_on_data;
mod address;
mod args;
mod awake;
mod batching;
mod bus;
mod config;
mod control;
mod documents;
mod engine_cmd;
mod errors;
mod expose;
mod expose_order;
mod fault;
#[cfg(test)]
mod glossary;
mod helper;
mod identity;
mod last_stat;
mod limits;
mod link;
mod log;
mod loss;
mod measure;
mod messages;
mod namespace;
mod network;
mod operator;
mod page_exchange;
mod preload;
mod private;
mod program;
mod raw_calls;
mod reload;
mod run;
mod runtime_dir;
mod sandbox;
mod session_limits;
mod signals;
mod ss;
mod stat;
mod values;
mod warnings;

use args::{Arguments, Command};
use clap::{CommandFactory, Parser};
use errors::{Error, OWN_FAILURE, report, system};
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return usage(&error),
    };
    let done = match &arguments.command {
        Command::Run(run) => run::run(run),
        Command::Engine(engine) => engine_cmd::run(engine).map(|()| 0),
        Command::Stat(show) => stat::run(show).map(|()| 0),
        Command::Ss(show) => ss::run(show).map(|()| 0),
        Command::Measure(experiment) => measure::run(experiment, &Arguments::command()),
        Command::SmallProgram(program) => {
            longshore_measure::programs::run(&program.name, &program.arguments)
                .map(|()| 0)
                .map_err(system(program.name.clone()))
        }
        Command::Documents(documents) => documents::write(documents).map(|()| 0),
        Command::Bus(arguments) => bus::serve(arguments).map(|()| 0),
        Command::LinkAgent(agent) => link::agent(agent).map(|()| 0),
        Command::LinkServer(server) => link::serve(server).map(|()| 0),
        Command::LinkProxy(proxy) => link::proxy(proxy).map(|()| 0),
        Command::PrivateEngine => private::main().map(|()| 0),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            report(&error);
            ExitCode::from(error.code())
        }
    }
}

/// Prints what the argument parser has to say: help, or what is wrong.
fn usage(error: &clap::Error) -> ExitCode {
    if let Err(why) = error.print()
        && why.kind() != std::io::ErrorKind::BrokenPipe
    {
        report(&system("print")(why));
        return ExitCode::from(OWN_FAILURE);
    }
    if let Some(suggestion) = suggestion(error) {
        log::say(&format!("did you mean `{suggestion}`?"));
    }
    let is_run = std::env::args_os().nth(1).is_some_and(|word| word == "run");
    match error.exit_code() {
        0 => ExitCode::SUCCESS,
        _ if is_run => ExitCode::from(OWN_FAILURE),
        _ => ExitCode::from(2),
    }
}

/// What was meant by a word that is no command or no option, where the parser has no suggestion: it
/// counts two letters that have changed places as two slips of the hand.
fn suggestion(error: &clap::Error) -> Option<String> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let (word, suggested) = match error.kind() {
        ErrorKind::InvalidSubcommand => (
            ContextKind::InvalidSubcommand,
            ContextKind::SuggestedSubcommand,
        ),
        ErrorKind::UnknownArgument => (ContextKind::InvalidArg, ContextKind::SuggestedArg),
        _ => return None,
    };
    let Some(ContextValue::String(word)) = error.get(word) else {
        return None;
    };
    if error.get(suggested).is_some() {
        return None;
    }
    let all = Arguments::command();
    let Some(option) = word.strip_prefix("--") else {
        return Some(format!("longshore {}", likely_command(word, &all)?));
    };
    let mut command = &all;
    for name in std::env::args().skip(1) {
        let Some(below) = command.find_subcommand(name) else {
            break;
        };
        command = below;
    }
    Some(format!("--{}", likely_option(option, command)?))
}

/// The name that is one with fewer slips of the hand than `fewer` says for it.
fn likely<'a>(
    word: &str,
    names: impl Iterator<Item = &'a str>,
    fewer: fn(&str) -> usize,
) -> Option<&'a str> {
    let slips = |name: &&str| strsim::damerau_levenshtein(word, name);
    let best = names.min_by_key(slips)?;
    (slips(&best) < fewer(best)).then_some(best)
}

fn likely_command<'a>(word: &str, all: &'a clap::Command) -> Option<&'a str> {
    let shown = all.get_subcommands().filter(|c| !c.is_hide_set());
    likely(word, shown.map(clap::Command::get_name), |name| {
        name.len().min(3)
    })
}

fn likely_option<'a>(word: &str, command: &'a clap::Command) -> Option<&'a str> {
    let name = word.split('=').next().unwrap_or(word);
    let shown = command.get_arguments().filter(|a| !a.is_hide_set());
    // There are many, and some are short.
    likely(name, shown.filter_map(clap::Arg::get_long), |name| {
        2 + usize::from(name.len() > 5)
    })
}

/// Prints to stdout; a reader that has gone away, as `head` does, is no error. What would
/// control a terminal is not printed: root asks other users' engines, and programs choose
/// their own names.
fn print(text: &str) -> std::io::Result<()> {
    let control = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    let text = text.replace(control, "?");
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

fn print_json(value: &impl serde::Serialize) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| system("print")(std::io::Error::from(error)))?;
    print(&format!("{text}\n")).map_err(system("print"))
}
