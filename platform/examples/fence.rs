//! Runs a plan from a text file behind a backend: `fence BACKEND PLAN`; `fence probe` says what works here.

#![expect(clippy::print_stderr, reason = "an example speaks to its user directly")]

use std::process::ExitCode;

use sbx_platform::{Backend, End, text};

fn main() -> ExitCode {
    sbx_platform::take_over(std::env::args_os());
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.len() == 2 && arguments[1] == "probe" {
        return match sbx_platform::probe() {
            Ok(found) => {
                eprintln!("{found:#?}");
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("fence: {error}");
                ExitCode::from(125)
            }
        };
    }
    let [_, backend, file] = arguments.as_slice() else {
        eprintln!("usage: fence BACKEND|auto PLAN, or fence probe");
        return ExitCode::from(2);
    };
    match run(backend, file) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("fence: {error}");
            ExitCode::from(125)
        }
    }
}

fn run(backend: &str, file: &str) -> Result<u8, Box<dyn std::error::Error>> {
    let backend = match backend {
        "auto" => None,
        name => Some(Backend::from_name(name).ok_or("no such backend")?),
    };
    let plan = text::parse(&std::fs::read_to_string(file)?)?;
    let outcome = sbx_platform::launch(&plan, backend, None)?;
    let code = match &outcome.end {
        End::Exited(code) => *code,
        End::Signaled(number) => 128 + number,
        End::Limit(limit) => {
            eprintln!("fence: {} limit hit", limit.name());
            124
        }
        End::Setup(failure) => {
            eprintln!("fence: {failure}");
            125
        }
    };
    Ok(u8::try_from(code).unwrap_or(125))
}
