//! How the static program is linked; see `docs/design/start.md`.

use std::env::var;
use std::fmt::Write as _;
use std::path::Path;

/// Functions to be put beside each other; written by `scripts/launch-order`.
const ORDER: &str = "platform/link/launch.order";
/// Whoever links with something that reads no scripts sets this variable to `off`.
const ORDER_SWITCH: &str = "SBX_LINK_ORDER";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={ORDER}");
    println!("cargo::rerun-if-env-changed={ORDER_SWITCH}");
    let target = |part: &str| var(format!("CARGO_CFG_TARGET_{part}")).unwrap_or_default();
    // Others are linked by whatever linker crosses to them, and not every one knows these words.
    if target("OS") != "linux" || target("ENV") != "musl" || target("ARCH") != "x86_64" {
        return;
    }
    println!("cargo::rustc-link-arg-bins=-Wl,-e,sbx_start");
    // Relocations in a thirtieth of the room. The C library that comes with older compilers cannot read them.
    if minor_version().is_some_and(|minor| minor >= 93) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    // What is not optimised is another program, with other functions.
    let optimised = var("OPT_LEVEL").is_ok_and(|level| level != "0");
    if optimised && !var(ORDER_SWITCH).is_ok_and(|word| word == "off") {
        match write_order() {
            Ok(script) => println!("cargo::rustc-link-arg-bins=-Wl,-T,{script}"),
            Err(error) => println!("cargo::warning=functions stay in no order, because of {ORDER}: {error}"),
        }
    }
}

/// The compiler's own: 1.this.
fn minor_version() -> Option<u32> {
    let told = std::process::Command::new(var("RUSTC").ok()?).arg("--version").output().ok()?;
    String::from_utf8(told.stdout).ok()?.split('.').nth(1)?.parse().ok()
}

/// Writes a script for the linker that puts the listed functions and the C library first; where it lies.
fn write_order() -> Result<String, Box<dyn std::error::Error>> {
    let mut script = String::from("SECTIONS {\n  .text.launch : {\n");
    let list = std::fs::read_to_string(ORDER)?;
    for name in list.lines().filter(|line| !line.starts_with('#')) {
        writeln!(script, "    *(.text.{name})")?;
    }
    script.push_str("    *libc.a:*(.text .text.*)\n  }\n}\nINSERT BEFORE .text;\n");
    let path = Path::new(&var("OUT_DIR")?).join("launch.ld");
    std::fs::write(&path, script)?;
    Ok(path.display().to_string())
}
