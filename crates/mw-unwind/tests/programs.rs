//! User stacks of real programs, with and without frame pointers, symbols and debug information. Needs root, as tracing
//! does.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use mw_critical_path::{PathSummary, RequestSpan, Trace, critical_path};
use mw_profile::{SchedTracer, TraceOptions};
use mw_test::{alone, is_root};
use mw_unwind::{NAMING_LIMIT, mapped_code, name_functions};
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
    int number = handle_get(count);
    if (count > 1) {
        char byte;
        number += read(0, &byte, 1);
        number += handle_get(number);
    }
    return number == 12345;
}
"#;

fn compiled(dir: &Path, options: &[&str]) -> Command {
    let (source, program) = (dir.join("program.c"), dir.join("program"));
    std::fs::write(&source, PROGRAM).unwrap();
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
    name_functions(&mut [&mut path], trace, NAMING_LIMIT);
    path
}

/// Functions of the largest part, and why there are no further ones.
fn place(path: &PathSummary) -> (Vec<&str>, Option<&str>) {
    let place = &path.parts.first().unwrap().user;
    (place.functions.iter().map(String::as_str).collect(), place.missing.as_deref())
}

fn traced(program: &mut Command) -> (Trace, u32) {
    let mut tracer = SchedTracer::open(TraceOptions::COMMAND).unwrap();
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
    let (trace, task) = traced(&mut compiled(dir.path(), options));
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
    let (trace, task) = traced(&mut compiled(dir.path(), &["-s"]));
    let path = named(&trace, task);
    let (found, missing) = place(&path);
    assert!(found.contains(&"(program)"), "{found:?}");
    assert!(missing.unwrap().contains("no symbols of program"), "{missing:?}");
}

#[test]
fn a_program_without_unwind_information_says_so() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let options = ["-fomit-frame-pointer", "-fno-asynchronous-unwind-tables", "-static"];
    let (trace, task) = traced(&mut compiled(dir.path(), &options));
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
    let mut child = started(&mut compiled(dir.path(), &[]));
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
    let mut child = started(&mut compiled(dir.path(), &[]));
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
