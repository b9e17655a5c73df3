//! Functions of the C library that the compiler and the standard library call by name, for this library
//! alone (hidden): the C library's could be a sanitizer's, which keeps books per thread and would find
//! helpers that it does not know at work in the books of the thread that called.
//!
//! None of them is called where speed matters: what is moved here are names, numbers and lines.

#![allow(unsafe_code, reason = "functions of C, in assembly")]

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
    // Backwards only where the end of what is moved would be written over before it is read.
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

/// clock_gettime(2), which the standard library asks at every chunk.
extern "C" fn clock(clock: libc::clockid_t, at: *mut libc::timespec) -> libc::c_int {
    let arguments = [clock as usize, at.expose_provenance()];
    // SAFETY: the caller's own request.
    let done = unsafe { mw_sys::system_call(libc::SYS_clock_gettime, arguments) };
    kernel::answered(done) as libc::c_int
}

/// clock_nanosleep(2): an error is its result.
extern "C" fn sleep(
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

/// What a step of unwinding answers: there is no frame above (`_URC_END_OF_STACK`, unwind.h). A panic
/// therefore ends the process where it is: nothing of this library may unwind into a program.
extern "C" fn end_of_stack() -> libc::c_int {
    5
}

/// What a frame of this library tells an unwinder of the program's (pthread_cancel(3), exceptions of
/// C++): nothing has to be done for it.
extern "C" fn nothing() -> usize {
    0
}

extern "C" fn unreachable() -> ! {
    // SAFETY: as the C library's.
    unsafe { libc::abort() }
}

/// Names for this library alone, each a jump to one of the functions above.
macro_rules! hidden {
    ($jump:literal: $($name:literal = $function:ident;)*) => {
        std::arch::global_asm!(
            $(
                concat!(".globl ", $name),
                concat!(".hidden ", $name),
                concat!($name, ":"),
                concat!($jump, " {", stringify!($function), "}"),
            )*
            clock = sym clock,
            sleep = sym sleep,
            end_of_stack = sym end_of_stack,
            nothing = sym nothing,
            unreachable = sym unreachable,
        );
    };
}

#[cfg(target_arch = "x86_64")]
macro_rules! all {
    ($($all:tt)*) => { hidden! { "jmp": $($all)* } };
}
#[cfg(target_arch = "aarch64")]
macro_rules! all {
    ($($all:tt)*) => { hidden! { "b": $($all)* } };
}

// Without those of unwinding libgcc_s would be loaded into each program.
all! {
    "clock_gettime" = clock;
    "clock_nanosleep" = sleep;
    "_Unwind_RaiseException" = end_of_stack;
    "_Unwind_Backtrace" = end_of_stack;
    "_Unwind_Resume" = unreachable;
    "_Unwind_DeleteException" = nothing;
    "_Unwind_GetLanguageSpecificData" = nothing;
    "_Unwind_GetDataRelBase" = nothing;
    "_Unwind_GetTextRelBase" = nothing;
    "_Unwind_GetRegionStart" = nothing;
    "_Unwind_GetIP" = nothing;
    "_Unwind_GetIPInfo" = nothing;
    "_Unwind_GetCFA" = nothing;
    "_Unwind_SetGR" = nothing;
    "_Unwind_SetIP" = nothing;
}
