//! Hidden replacements for the C library functions that the compiler and the standard library call by name.
//! A sanitizer may interpose the C library's functions; it keeps state for each thread, and worker threads
//! that it does not know would use the state of the calling thread.
//!
//! None of them is on a fast path: they copy names, numbers and lines.

#![allow(unsafe_code, reason = "C functions in assembly")]

use crate::kernel;

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".pushsection .text.memwright_builtins, \"ax\", @progbits",
    ".hidden memcpy",
    ".hidden memmove",
    ".hidden memset",
    ".hidden memcmp",
    ".hidden bcmp",
    ".hidden strlen",
    ".globl memcpy, memmove, memset, memcmp, bcmp, strlen",
    ".type memcpy, @function",
    ".type memmove, @function",
    ".type memset, @function",
    ".type memcmp, @function",
    ".type bcmp, @function",
    ".type strlen, @function",
    // Backwards only if the ranges overlap and the source is below the destination.
    "memmove:",
    "mov rax, rdi",
    "sub rax, rsi",
    "cmp rax, rdx",
    "jae memcpy",
    "mov rax, rdi",
    "mov rcx, rdx",
    "lea rsi, [rsi + rdx - 1]",
    "lea rdi, [rdi + rdx - 1]",
    "std",
    "rep movsb",
    "cld",
    "ret",
    "memcpy:",
    "mov rax, rdi",
    "mov rcx, rdx",
    "rep movsb",
    "ret",
    "memset:",
    "mov r8, rdi",
    "mov eax, esi",
    "mov rcx, rdx",
    "rep stosb",
    "mov rax, r8",
    "ret",
    "bcmp:",
    "memcmp:",
    "xor eax, eax",
    "mov rcx, rdx",
    "cmp rcx, rcx",
    "repe cmpsb",
    "je 2f",
    "movzx eax, byte ptr [rdi - 1]",
    "movzx ecx, byte ptr [rsi - 1]",
    "sub eax, ecx",
    "2:",
    "ret",
    "strlen:",
    "xor eax, eax",
    "3:",
    "cmp byte ptr [rdi + rax], 0",
    "je 4f",
    "inc rax",
    "jmp 3b",
    "4:",
    "ret",
    ".popsection",
);

#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".pushsection .text.memwright_builtins, \"ax\", %progbits",
    ".hidden memcpy",
    ".hidden memmove",
    ".hidden memset",
    ".hidden memcmp",
    ".hidden bcmp",
    ".hidden strlen",
    ".globl memcpy, memmove, memset, memcmp, bcmp, strlen",
    ".type memcpy, %function",
    ".type memmove, %function",
    ".type memset, %function",
    ".type memcmp, %function",
    ".type bcmp, %function",
    ".type strlen, %function",
    "memmove:",
    "sub x3, x0, x1",
    "cmp x3, x2",
    "b.hs memcpy",
    "2:",
    "cbz x2, 3f",
    "sub x2, x2, #1",
    "ldrb w3, [x1, x2]",
    "strb w3, [x0, x2]",
    "b 2b",
    "3:",
    "ret",
    "memcpy:",
    "mov x4, xzr",
    "4:",
    "cmp x4, x2",
    "b.eq 5f",
    "ldrb w3, [x1, x4]",
    "strb w3, [x0, x4]",
    "add x4, x4, #1",
    "b 4b",
    "5:",
    "ret",
    "memset:",
    "cbz x2, 6f",
    "sub x2, x2, #1",
    "strb w1, [x0, x2]",
    "b memset",
    "6:",
    "ret",
    "bcmp:",
    "memcmp:",
    "mov x4, xzr",
    "7:",
    "cmp x4, x2",
    "b.eq 8f",
    "ldrb w3, [x0, x4]",
    "ldrb w5, [x1, x4]",
    "add x4, x4, #1",
    "cmp w3, w5",
    "b.eq 7b",
    "sub w0, w3, w5",
    "ret",
    "8:",
    "mov w0, wzr",
    "ret",
    "strlen:",
    "mov x1, x0",
    "mov x0, xzr",
    "9:",
    "ldrb w2, [x1, x0]",
    "cbz w2, 10f",
    "add x0, x0, #1",
    "b 9b",
    "10:",
    "ret",
    ".popsection",
);

/// clock_gettime(2), which the standard library calls for every chunk.
extern "C" fn clock_gettime(clock: libc::clockid_t, at: *mut libc::timespec) -> libc::c_int {
    let arguments = [clock as usize, at.expose_provenance()];
    // SAFETY: the caller's own request.
    let done = unsafe { mw_sys::system_call(libc::SYS_clock_gettime, arguments) };
    kernel::c_result(done) as libc::c_int
}

/// clock_nanosleep(2), which returns an error number.
extern "C" fn clock_nanosleep(
    clock: libc::clockid_t,
    flags: libc::c_int,
    time: *const libc::timespec,
    left: *mut libc::timespec,
) -> libc::c_int {
    let time = [time.expose_provenance(), left.expose_provenance()];
    let arguments = [clock as usize, flags as usize, time[0], time[1]];
    // SAFETY: the caller's own request.
    let done = unsafe { mw_sys::system_call(libc::SYS_clock_nanosleep, arguments) };
    -done as libc::c_int
}

/// The result of a step of unwinding: there is no frame above (`_URC_END_OF_STACK`, unwind.h). A panic
/// therefore aborts the process, and never unwinds into a program.
extern "C" fn end_of_stack() -> libc::c_int {
    5
}

/// Frame of this library for an unwinder of the program (pthread_cancel(3), C++ exceptions):
/// it has no cleanup.
extern "C" fn no_cleanup() -> usize {
    0
}

extern "C" fn unreachable() -> ! {
    // SAFETY: as the C library's.
    unsafe { libc::abort() }
}

/// Hidden symbols, each a jump to one of the functions above.
macro_rules! hidden {
    ($jump:literal: $($name:literal = $function:ident;)*) => {
        std::arch::global_asm!(
            $(
                concat!(".globl ", $name),
                concat!(".hidden ", $name),
                concat!($name, ":"),
                concat!($jump, " {", stringify!($function), "}"),
            )*
            clock_gettime = sym clock_gettime,
            clock_nanosleep = sym clock_nanosleep,
            end_of_stack = sym end_of_stack,
            no_cleanup = sym no_cleanup,
            unreachable = sym unreachable,
        );
    };
}

#[cfg(target_arch = "x86_64")]
macro_rules! hidden_symbols {
    ($($symbols:tt)*) => { hidden! { "jmp": $($symbols)* } };
}
#[cfg(target_arch = "aarch64")]
macro_rules! hidden_symbols {
    ($($symbols:tt)*) => { hidden! { "b": $($symbols)* } };
}

// Without those for unwinding, libgcc_s would be loaded into each program.
hidden_symbols! {
    "clock_gettime" = clock_gettime;
    "clock_nanosleep" = clock_nanosleep;
    "_Unwind_RaiseException" = end_of_stack;
    "_Unwind_Backtrace" = end_of_stack;
    "_Unwind_Resume" = unreachable;
    "_Unwind_DeleteException" = no_cleanup;
    "_Unwind_GetLanguageSpecificData" = no_cleanup;
    "_Unwind_GetDataRelBase" = no_cleanup;
    "_Unwind_GetTextRelBase" = no_cleanup;
    "_Unwind_GetRegionStart" = no_cleanup;
    "_Unwind_GetIP" = no_cleanup;
    "_Unwind_GetIPInfo" = no_cleanup;
    "_Unwind_GetCFA" = no_cleanup;
    "_Unwind_SetGR" = no_cleanup;
    "_Unwind_SetIP" = no_cleanup;
}
