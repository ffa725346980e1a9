//! Fuzzes `sbx_fuzz::http_chunks`; without cargo-fuzz, replays the files given as arguments.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| sbx_fuzz::http_chunks(data));

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    std::env::args_os().skip(1).try_for_each(|file| std::fs::read(file).map(|data| sbx_fuzz::http_chunks(&data)))
}
