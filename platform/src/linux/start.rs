//! The very first instructions of the static program.
//!
//! Answers for having at hand what the start touches anyway: every page of the data that is about to be relocated, and
//! the top of the stack. Asked for at once they take half the time they take one by one, as they are touched. It leaves
//! everything else to the C library's own entry, to which it goes on with all registers that count as they were.
//! Invariant: a kernel that does not know the request refuses it, and nothing is different then.
//!
//! Only the program itself starts here, by an argument to the linker (`build.rs`).

std::arch::global_asm!(
    ".section .text.sbx_start, \"ax\", @progbits",
    ".globl sbx_start",
    ".hidden sbx_start",
    ".hidden __init_array_start",
    ".hidden _edata",
    "sbx_start:",
    "mov r8, rdx",
    // From the first page of what is written to the last that comes from the file.
    "lea rdi, [rip + __init_array_start]",
    "and rdi, -4096",
    "lea rsi, [rip + _edata + 4095]",
    "and rsi, -4096",
    "sub rsi, rdi",
    "mov edx, {populate_write}",
    "mov eax, {madvise}",
    "syscall",
    "lea rdi, [rsp - {stack}]",
    "and rdi, -4096",
    "mov esi, {stack}",
    "mov edx, {populate_write}",
    "mov eax, {madvise}",
    "syscall",
    "mov rdx, r8",
    "jmp _start",
    ".text",
    populate_write = const 23,
    madvise = const libc::SYS_madvise,
    stack = const 14 * 4096,
);
