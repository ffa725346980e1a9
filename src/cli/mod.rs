//! The command line: one file a command, the doc comments are the help.

mod agents;
mod answers;
mod audit;
mod authority;
mod batch;
mod check;
mod client_file;
mod docs;
mod doctor;
mod edit;
mod error;
mod exec;
mod exit;
mod explain;
mod fence;
mod fs;
mod hand;
mod hook;
mod http;
mod learn;
mod mcp;
mod new;
mod offers;
mod quick;
mod records;
mod registered;
mod report;
mod risk;
mod schema;
mod tools;
mod tree;
mod ui;
mod why;

pub use error::CliError;
pub use exit::Exit;
pub use ui::{Colour, Ui};

use clap::{Args, CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

/// Gives an AI agent exactly the authority written in its record.
///
/// An agent's record says what it may read, write, delete, run and reach. sbx decides by it, and has
/// the kernel hold the agent to it.
#[derive(Debug, Parser)]
#[command(name = "sbx", version, disable_help_subcommand = true)]
pub struct Cli {
    #[command(flatten)]
    style: Style,
    #[command(subcommand)]
    command: Command,
}

/// How answers are printed.
#[derive(Debug, Args)]
struct Style {
    /// Print answers as JSON.
    #[arg(long, global = true)]
    json: bool,
    /// When to colour.
    #[arg(long, global = true, value_enum, default_value_t)]
    color: Colour,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Launch(exec::Launch),
    /// List, read, write and trust agents' records.
    #[command(subcommand)]
    Agents(agents::Agents),
    /// Ask whether an agent may do something.
    Check(check::Check),
    /// Show the narrowing chain and what is left, as a receipt.
    Explain(explain::Explain),
    /// Say what could go wrong with a shell text.
    #[command(subcommand)]
    Risk(risk::Risk),
    /// Ask whether an agent may do something, and try it in its sandbox.
    Why(why::Why),
    /// Do an agent's file operations behind its fence.
    #[command(subcommand)]
    Fs(fs::Fs),
    /// Make an HTTP request with an agent's authority.
    Http(http::Http),
    /// Read and change the store of records with an agent's authority.
    #[command(subcommand)]
    Records(records::Records),
    /// Find out what works here, what does not, and what to do about it.
    Doctor(doctor::Doctor),
    /// Show, count and verify what happened.
    #[command(subcommand)]
    Audit(audit::Audit),
    /// Watch a command in a rehearsal, and propose the smallest record for it.
    Learn(learn::Learn),
    /// Show what agents may do, what they did and what changed, as a page or as text.
    Report(report::Report),
    /// List skills, or say what one still needs.
    #[command(subcommand)]
    Skills(offers::Skills),
    /// Name commands with checked values, and run them or leave them running.
    #[command(subcommand)]
    Tools(tools::Tools),
    /// Show what an agent may be given on the model provider's side.
    ProviderTools(offers::ProviderTools),
    /// Stand between clients and servers of the Model Context Protocol.
    #[command(subcommand)]
    Mcp(mcp::Mcp),
    /// Answer clients that ask before a tool runs.
    #[command(subcommand)]
    Hook(hook::Hook),
    /// Print JSON Schemas of what sbx reads and writes.
    Schema(schema::Schema),
    /// Print shell completions.
    Completions(docs::Completions),
    /// Print the manual.
    Man(docs::Man),
}

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    sbx_platform::take_over(std::env::args_os());
    if let Some(exit) = crate::run::act(std::env::args_os()) {
        return exit;
    }
    if let Some(exit) = crate::hands::serve(std::env::args_os()) {
        return exit;
    }
    let Cli { style, command } = match parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let ui = Ui::new(style.color, style.json);
    match run(&ui, command) {
        // Whoever waits for a launch waits for this process too; the door for output flushes what it writes.
        Ok(Exit::Status(status)) => sbx_platform::leave(status),
        Ok(exit) => exit.into(),
        Err(error) => {
            ui.remark(error.to_string());
            Exit::BadInput.into()
        }
    }
}

/// Reads the command line.
fn parse() -> Result<Cli, clap::Error> {
    quick::read(std::env::args_os().skip(1)).map_or_else(Cli::try_parse, Ok)
}

/// Help and version are answers; anything else is bad input.
fn usage(error: &clap::Error) -> ExitCode {
    let ui = Ui::new(Colour::Never, false);
    if error.use_stderr() {
        ui.remark(error.to_string());
        // A launcher's own mistakes must not look like the command's.
        let status = if launches(std::env::args_os().skip(1)) { Exit::Status(125) } else { Exit::BadInput };
        return status.into();
    }
    match ui.answer(error.to_string().trim_end()) {
        Ok(()) => Exit::Fine.into(),
        Err(error) => {
            ui.remark(error.to_string());
            Exit::BadInput.into()
        }
    }
}

/// Whether the command, after the options that may stand before it, is one that launches.
fn launches(mut args: impl Iterator<Item = std::ffi::OsString>) -> bool {
    while let Some(arg) = args.next() {
        match arg.to_str() {
            Some("--color") => drop(args.next()),
            Some(option) if option.starts_with("--") => {}
            name => return matches!(name, Some("exec" | "eval" | "shell")),
        }
    }
    false
}

fn run(ui: &Ui, command: Command) -> Result<Exit, CliError> {
    match command {
        Command::Launch(command) => Ok(command.run(ui)),
        Command::Agents(command) => command.run(ui),
        Command::Check(command) => command.run(ui),
        Command::Explain(command) => command.run(ui),
        Command::Risk(command) => command.run(ui),
        Command::Why(command) => command.run(ui),
        Command::Fs(command) => command.run(ui),
        Command::Http(command) => command.run(ui),
        Command::Records(command) => command.run(ui),
        Command::Doctor(command) => command.run(ui),
        Command::Audit(command) => command.run(ui),
        Command::Learn(command) => command.run(ui),
        Command::Report(command) => command.run(ui),
        Command::Skills(command) => command.run(ui),
        Command::Tools(command) => command.run(ui),
        Command::ProviderTools(command) => command.run(ui),
        Command::Mcp(command) => command.run(ui),
        Command::Hook(command) => command.run(ui),
        Command::Schema(command) => command.run(ui),
        Command::Completions(command) => command.run(ui),
        Command::Man(command) => command.run(ui),
    }
}

/// The definition of the whole command line, for completions, manual and tests.
#[must_use]
pub fn definition() -> clap::Command {
    Cli::command()
}
