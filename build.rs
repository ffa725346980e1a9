//! How the static program is linked; see `platform/src/linux/start.rs`.

use std::env::var;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
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
}

/// The compiler's own: 1.this.
fn minor_version() -> Option<u32> {
    let told = std::process::Command::new(var("RUSTC").ok()?).arg("--version").output().ok()?;
    String::from_utf8(told.stdout).ok()?.split('.').nth(1)?.parse().ok()
}
