//! User stacks of real programs, with and without frame pointers, symbols and debug information. Needs root, as tracing
//! does.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use mw_critical_path::{EventKind, PathSummary, RequestSpan, Trace, critical_path};
use mw_profile::{SchedTracer, TraceOptions};
use mw_test::{alone, is_root};
use mw_unwind::{NamingLimits, mapped_code, name_functions};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// `rest` waits in a system call of the C library, which has no frame pointers.
const PROGRAM: &str = r#"
#include <string.h>
#include <time.h>
#include <unistd.h>
__attribute__((noinline)) static int rest(int number) {
    struct timespec time = {0, 300000000};
    nanosleep(&time, 0);
    return number + 1;
}
static inline __attribute__((always_inline)) int answer(int number) { return rest(number) * 3; }
__attribute__((noinline)) int handle_get(int number) {
    char buffer[300];
    memset(buffer, number, sizeof buffer);
    number = answer(number) + buffer[number & 7];
    return number;
}
int main(int count, char **arguments) {
#if defined NO_FRAME_POINTER && defined __x86_64__
    __asm__ volatile("mov $1234, %%rbp" : : : "rbp");
#endif
    int number = handle_get(count);
    if (count > 1) {
        char byte;
        number += read(0, &byte, 1);
        number += handle_get(number);
    }
    return number == 12345;
}
"#;

fn compiled(dir: &Path, text: &str, options: &[&str]) -> Command {
    let (source, program) = (dir.join("program.c"), dir.join("program"));
    std::fs::write(&source, text).unwrap();
    let mut cc = Command::new("cc");
    cc.arg("-O2").args(options).arg("-o").arg(&program).arg(&source);
    assert!(cc.status().unwrap().success());
    Command::new(program)
}

fn named(trace: &Trace, task: u32) -> PathSummary {
    let (born, ended) = trace.lifetime(task);
    let (from, to) = (born.unwrap_or(trace.from), ended.unwrap_or(trace.to));
    let request = RequestSpan { task, from, to, ..RequestSpan::default() };
    let mut path = critical_path(trace, request).summary(trace);
    name_functions(&mut [&mut path], trace, NamingLimits::COMMAND);
    path
}

/// Functions of the largest part, and why there are no further ones.
fn place(path: &PathSummary) -> (Vec<&str>, Option<&str>) {
    let place = &path.parts.first().unwrap().user;
    (place.functions.iter().map(String::as_str).collect(), place.missing.as_deref())
}

fn traced(program: &mut Command, options: TraceOptions) -> (Trace, u32) {
    let mut tracer = SchedTracer::open(options).unwrap();
    tracer.start(&[]);
    let mut child = program.spawn().unwrap();
    child.wait().unwrap();
    (tracer.finish(), child.id())
}

#[track_caller]
fn check(options: &[&str], functions: &[&str]) {
    if !is_root() {
        return;
    }
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let (trace, task) = traced(&mut compiled(dir.path(), PROGRAM, options), TraceOptions::COMMAND);
    let path = named(&trace, task);
    let (found, missing) = place(&path);
    assert!(found.windows(functions.len()).any(|of| of == functions), "{found:?} {missing:?}");
    assert!(found.first().unwrap().contains("nanosleep"), "{found:?}");
}

#[test]
fn a_program_with_frame_pointers() {
    check(&["-fno-omit-frame-pointer"], &["rest", "handle_get", "main"]);
}

#[test]
fn a_program_without_frame_pointers() {
    check(&["-fomit-frame-pointer"], &["rest", "handle_get", "main"]);
}

#[test]
fn inlined_functions_are_named_by_debug_information() {
    check(&["-g"], &["rest", "answer", "handle_get", "main"]);
}

#[test]
fn compressed_debug_information_is_read() {
    check(&["-g", "-gz"], &["rest", "answer", "handle_get", "main"]);
}

#[test]
fn a_program_at_a_fixed_address() {
    check(&["-no-pie", "-static"], &["rest", "handle_get", "main"]);
}

#[test]
fn a_program_without_symbols_says_so() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let (trace, task) = traced(&mut compiled(dir.path(), PROGRAM, &["-s"]), TraceOptions::COMMAND);
    let path = named(&trace, task);
    let (found, missing) = place(&path);
    assert!(found.contains(&"(program)"), "{found:?}");
    assert!(missing.unwrap().contains("no symbols of program"), "{missing:?}");
}

/// As Fedora's packages are made: what `strip` leaves has the names of its functions in a compressed section.
#[test]
fn a_stripped_program_has_names_in_its_compressed_symbols() {
    const STRIP: &str = "objcopy --strip-debug program symbols && strip program &&
        objcopy --remove-section=.comment symbols && xz symbols &&
        objcopy --add-section .gnu_debugdata=symbols.xz program";
    if !is_root() {
        return;
    }
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let mut program = compiled(dir.path(), PROGRAM, &[]);
    let mut strip = Command::new("sh");
    assert!(strip.args(["-ec", STRIP]).current_dir(dir.path()).status().unwrap().success());
    let (trace, task) = traced(&mut program, TraceOptions::COMMAND);
    let path = named(&trace, task);
    let (found, missing) = place(&path);
    let functions = ["rest", "handle_get", "main"];
    assert!(found.windows(functions.len()).any(|of| of == functions), "{found:?} {missing:?}");
}

/// Its frame pointer is none.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_program_without_unwind_information_says_so() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let options = [
        "-DNO_FRAME_POINTER",
        "-fomit-frame-pointer",
        "-fno-asynchronous-unwind-tables",
        "-static",
    ];
    let (trace, task) = traced(&mut compiled(dir.path(), PROGRAM, &options), TraceOptions::COMMAND);
    let path = named(&trace, task);
    let (found, missing) = place(&path);
    assert!(!found.contains(&"main"), "{found:?}");
    assert!(missing.unwrap().contains("no unwind information in program"), "{found:?} {missing:?}");
}

/// Starts a program that rests, then waits for its input.
fn started(program: &mut Command) -> Child {
    program.arg("wait").stdin(Stdio::piped()).spawn().unwrap()
}

#[test]
fn a_process_that_ends_before_its_stacks_are_named() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let mut child = started(&mut compiled(dir.path(), PROGRAM, &[]));
    // It rests once before the trace, and once in it.
    std::thread::sleep(Duration::from_millis(500));
    let mut tracer = SchedTracer::open(TraceOptions::COMMAND).unwrap();
    tracer.start(&[child.id()]);
    let code = mapped_code(&[child.id()]);
    drop(child.stdin.take());
    child.wait().unwrap();
    let mut trace = tracer.finish();
    let untold = named(&trace, child.id());
    trace.add_code(code);
    let told = named(&trace, child.id());
    let has_name = |path: &PathSummary| {
        let mut functions = path.parts.iter().flat_map(|part| &part.user.functions);
        functions.any(|name| name == "handle_get")
    };
    assert!(has_name(&told) && !has_name(&untold), "{told:?}");
    let ended = |path: &PathSummary| {
        path.parts.iter().any(|part| {
            part.user.missing.as_ref().is_some_and(|missing| missing.contains("has ended"))
        })
    };
    assert!(ended(&untold) && !ended(&told), "{untold:?}");
}

#[test]
fn a_file_that_was_replaced_is_read_as_it_was_mapped() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let mut tracer = SchedTracer::open(TraceOptions::COMMAND).unwrap();
    tracer.start(&[]);
    let mut child = started(&mut compiled(dir.path(), PROGRAM, &[]));
    std::thread::sleep(Duration::from_millis(500));
    std::fs::remove_file(dir.path().join("program")).unwrap();
    std::fs::write(dir.path().join("program"), "another").unwrap();
    let trace = tracer.finish();
    let path = named(&trace, child.id());
    drop(child.stdin.take());
    child.wait().unwrap();
    let (found, missing) = place(&path);
    assert!(found.contains(&"handle_get"), "{found:?} {missing:?}");
}

#[inline(never)]
fn rest_in_rust() {
    std::thread::sleep(Duration::from_millis(100));
    std::hint::black_box(());
}

#[test]
fn a_thread_of_a_program_in_rust() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    let mut tracer = SchedTracer::open(TraceOptions::COMMAND).unwrap();
    tracer.start(&[]);
    let thread = std::thread::spawn(|| {
        rest_in_rust();
        rustix::thread::gettid().as_raw_pid().cast_unsigned()
    });
    let task = thread.join().unwrap();
    let path = named(&tracer.finish(), task);
    let (found, missing) = place(&path);
    assert!(found.contains(&"programs::rest_in_rust"), "{found:?} {missing:?}");
}

/// What the recorder traces: tasks that are sampled in the kernel.
#[test]
fn a_program_in_the_kernel_is_named_from_samples_alone() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let populating = r#"
#include <sys/mman.h>
enum { TABLE_BYTES = 64 << 20, ROUNDS = 12, FLAGS = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE };
__attribute__((noinline)) int reserve_rehash(int number) {
    char *table = mmap(0, TABLE_BYTES, PROT_READ | PROT_WRITE, FLAGS, -1, 0);
    number += table[number];
    munmap(table, TABLE_BYTES);
    return number + 1;
}
int main(void) {
    volatile int total = 0;
    for (int round = 0; round < ROUNDS; round++) total += reserve_rehash(round);
}
"#;
    let (trace, task) = {
        let mut program = compiled(dir.path(), populating, &[]);
        traced(&mut program, TraceOptions::RECORDER)
    };
    let path = named(&trace, task);
    let is_named = |functions: &[String]| {
        functions.windows(2).any(|of| of[0] == "reserve_rehash" && of[1] == "main")
    };
    assert!(path.parts.iter().any(|part| is_named(&part.user.functions)), "{path:?}");
    let sampled = trace.events.iter().filter(|event| event.user_stack.0 != 0);
    let is_sample = |kind| matches!(kind, EventKind::Sample { .. });
    assert!(sampled.map(|event| event.kind).all(is_sample));
}

#[test]
fn without_user_stacks_nothing_is_recorded() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    let options = TraceOptions { user_stacks: None, ..TraceOptions::COMMAND };
    let mut tracer = SchedTracer::open(options).unwrap();
    tracer.start(&[]);
    std::thread::sleep(Duration::from_millis(20));
    let trace = tracer.finish();
    assert!(trace.user_stacks.is_empty() && trace.code.is_empty());
    assert!(trace.events.iter().all(|event| event.user_stack.0 == 0));
}
