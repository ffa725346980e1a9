//! The program; everything is in the library.

fn main() -> std::process::ExitCode {
    sbx::cli::main()
}
