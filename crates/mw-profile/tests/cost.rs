//! What the profiler costs; prints it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::Busy;
use mw_profile::{
    BlockedThreads, LOOK, Profiler, ProfilerOptions, SchedTracer, TaskFiles, Tasks, TraceOptions,
};
use mw_test::{alone, is_root};
use std::fs;
use std::io::{Read, Seek, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// CPU time of the reader, which is a thread of this process.
fn reader_time() -> Duration {
    let threads = fs::read_dir("/proc/self/task").unwrap();
    let paths = threads.map(|thread| thread.unwrap().path());
    let is_reader = |path: &std::path::PathBuf| {
        fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm == "mw-profile\n")
    };
    let reader = paths.into_iter().find(is_reader).unwrap();
    let stat = fs::read_to_string(reader.join("schedstat")).unwrap();
    Duration::from_nanos(stat.split(' ').next().unwrap().parse().unwrap())
}

fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// How long it takes to fill the page cache with 64 MiB, the best of several.
fn fill() -> Duration {
    let mut file = tempfile::tempfile_in("/var/tmp").unwrap();
    let megabyte = vec![1; 1 << 20];
    let once = || {
        file.set_len(0).unwrap();
        file.rewind().unwrap();
        let began = Instant::now();
        for _ in 0..64 {
            file.write_all(&megabyte).unwrap();
        }
        began.elapsed()
    };
    std::iter::repeat_with(once).take(7).min().unwrap()
}

#[test]
fn it_is_cheap() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    let (without, resident_before_kib) = (fill(), resident_kib());
    let (profiler, missing) = Profiler::start(ProfilerOptions::default());
    assert_eq!(missing, []);
    let with = fill();
    let (began, used) = (Instant::now(), reader_time());
    std::thread::sleep(Duration::from_secs(4));
    let share = (reader_time() - used).as_secs_f64() / began.elapsed().as_secs_f64();
    let calm_kib = resident_kib() - resident_before_kib;
    let now = Instant::now();
    profiler.begin();
    let begin = now.elapsed();
    let busy = Busy::reading_zero();
    let (now, used) = (Instant::now(), reader_time());
    busy.for_ms(1000);
    let during = (reader_time() - used).as_secs_f64() / now.elapsed().as_secs_f64();
    let now = Instant::now();
    let evidence = profiler.end();
    let end = now.elapsed();
    drop(busy);
    let now = Instant::now();
    profiler.baseline().unwrap();
    let baseline = now.elapsed();
    let now = Instant::now();
    let tasks = Tasks::look(&mut TaskFiles::start().unwrap(), LOOK);
    let look = now.elapsed();
    let now = Instant::now();
    BlockedThreads::default().look(&mut TaskFiles::start().unwrap(), LOOK);
    let blocked = now.elapsed();
    println!("reader: {:.4}% of a processor, {:.3}% in a stall", share * 100.0, during * 100.0);
    println!(
        "resident: {calm_kib} KiB, {} KiB after a stall",
        resident_kib() - resident_before_kib
    );
    println!("begin {begin:?}, end {end:?}, baseline {baseline:?}, lost {}", evidence.lost_records);
    println!("64 MiB into the page cache: {without:?} without, {with:?} with");
    println!("a look at tasks {look:?} ({:?}), at blocked threads {blocked:?}", tasks.missing());
    // Without optimisation it is five times as slow.
    let most = if cfg!(debug_assertions) { 0.01 } else { 0.002 };
    assert!(share < most, "{share}");
    assert!(calm_kib < 4096, "{calm_kib} KiB");
    assert!(begin < Duration::from_millis(20), "{begin:?}");
}

/// Two threads that wake each other, as fast as they can.
fn ping_pong(duration: Duration) {
    let (mut here, mut there) = UnixStream::pair().unwrap();
    let answer = std::thread::spawn(move || {
        let mut byte = [0];
        while there.read(&mut byte).unwrap() > 0 {
            there.write_all(&byte).unwrap();
        }
    });
    let began = Instant::now();
    while began.elapsed() < duration {
        here.write_all(&[1]).unwrap();
        here.read_exact(&mut [0]).unwrap();
    }
    drop(here);
    answer.join().unwrap();
}

/// What reading an event of the scheduler trace takes once its stack is known.
#[test]
fn reading_the_trace_is_cheap() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    let mut tracer = SchedTracer::open(TraceOptions::RECORDER).unwrap();
    tracer.start(&[]);
    let mut read = Duration::ZERO;
    for _ in 0..20 {
        ping_pong(Duration::from_millis(10));
        let before = mw_sys::thread_time();
        tracer.wait(None, Duration::ZERO);
        read += mw_sys::thread_time() - before;
    }
    let trace = tracer.finish();
    let events = u32::try_from(trace.events.len()).unwrap();
    let each = read / events.max(1);
    println!("{each:?} an event of {events}, {} lost, {} stacks", trace.lost, trace.stacks.len());
    assert!(events > 1000, "{events}");
    // Without optimisation it is five times as slow.
    let most = Duration::from_micros(if cfg!(debug_assertions) { 10 } else { 2 });
    assert!(each < most, "{each:?}");
}
