//! The program; everything is in the library.

/// musl maps and unmaps pages for every handful of allocations; a launch is mostly that, unless memory is kept.
#[cfg(all(target_os = "linux", target_env = "musl"))]
#[global_allocator]
static HEAP: sbx_platform::heap::Heap = sbx_platform::heap::Heap::new();

fn main() -> std::process::ExitCode {
    sbx::cli::main()
}
