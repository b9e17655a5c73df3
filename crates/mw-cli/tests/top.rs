//! `memwright top` on a terminal: a pseudo-terminal, and what a terminal makes of what is written
//! to it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use assert_cmd::Command;
use mw_collect::{Sampler, Source};
use mw_model::{Host, Incident, Layout, Reading, Role, Tick};
use mw_proc::vmstat::Counter;
use mw_record::{Retention, Writer};
use pty_process::Size;
use pty_process::blocking::{Pty, open};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{LocalModes, tcgetattr};
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// However loaded the machine is, what is waited for comes within it.
const PATIENCE: Duration = Duration::from_secs(60);

/// `memwright top` on a terminal of its own.
struct Session {
    pty: Pty,
    child: Child,
    parser: vt100::Parser,
    written: Vec<u8>,
}

impl Session {
    fn start(rows: u16, columns: u16, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let (pty, terminal) = open().unwrap();
        pty.resize(Size::new(rows, columns)).unwrap();
        let child = pty_process::blocking::Command::new(env!("CARGO_BIN_EXE_memwright"))
            .arg("top")
            .args(arguments)
            .env("TERM", "xterm-256color")
            .env("LC_ALL", "C.UTF-8")
            .env("TZ", "UTC")
            .env_remove("NO_COLOR")
            .envs(environment.iter().copied())
            .spawn(terminal)
            .unwrap();
        let parser = vt100::Parser::new(rows, columns, 0);
        Self { pty, child, parser, written: Vec::new() }
    }

    fn press(&mut self, keys: &str) {
        self.pty.write_all(keys.as_bytes()).unwrap();
    }

    fn screen(&self) -> String {
        self.parser.screen().contents()
    }

    /// Takes what was written meanwhile; whether the terminal is still open at the other end.
    fn read(&mut self) -> bool {
        let wait = rustix::time::Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
        let mut ready = [PollFd::new(&self.pty, PollFlags::IN)];
        if poll(&mut ready, Some(&wait)).unwrap() == 0 {
            return true;
        }
        let mut bytes = [0; 16 << 10];
        match self.pty.read(&mut bytes) {
            Ok(count) if count > 0 => {
                self.written.extend_from_slice(&bytes[..count]);
                self.parser.process(&bytes[..count]);
                true
            }
            _ => false,
        }
    }

    fn wait_for(&mut self, what: &str, is_there: impl Fn(&Self) -> bool) {
        let started = Instant::now();
        while !is_there(self) {
            assert!(started.elapsed() < PATIENCE, "no {what}:\n{}", self.screen());
            self.read();
        }
    }

    fn wait_for_text(&mut self, text: &str) {
        self.wait_for(text, |session| session.screen().contains(text));
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn is_stopped(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    }

    fn is_raw(&self) -> bool {
        !tcgetattr(&self.pty).unwrap().local_modes.contains(LocalModes::ICANON)
    }

    fn end(&mut self) -> ExitStatus {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                while self.read() && started.elapsed() < PATIENCE {
                    if !self.is_waiting() {
                        break;
                    }
                }
                return status;
            }
            assert!(started.elapsed() < PATIENCE, "it does not end:\n{}", self.screen());
            self.read();
        }
    }

    fn is_waiting(&self) -> bool {
        let none = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.pty, PollFlags::IN)], Some(&none)).unwrap() > 0
    }

    /// That the terminal is as it was: cooked, the usual screen, with a cursor.
    fn is_handed_back(&self) {
        assert!(!self.is_raw());
        assert!(!self.parser.screen().alternate_screen());
        assert!(!self.parser.screen().hide_cursor());
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn it_shows_this_machine_and_leaves_the_terminal_as_it_was() {
    let mut session = Session::start(24, 80, &["--interval", "200ms"], &[]);
    session.wait_for_text("[1 overview]");
    assert!(session.is_raw() && session.parser.screen().alternate_screen());
    for shown in ["available", "pressure", "kswapd scan", "min low high", "hazards", "q quit"] {
        session.wait_for_text(shown);
    }
    session.press("2");
    session.wait_for_text("blocks");
    session.press("3");
    session.wait_for_text("writers throttled from");
    session.press("4");
    session.wait_for_text("resident");
    session.press("\t");
    session.wait_for_text("[5 hazards]");
    session.press("\x0c?");
    session.wait_for_text("a step back in time");
    session.press("\x1b");
    session.wait_for_text("rules passed");
    session.press(" ");
    session.wait_for_text("paused");
    session.press("\x1b[D\x1b[D");
    session.press(" ");
    session.wait_for_text("every 0.2s");
    session.press("q");
    assert_eq!(session.end().code(), Some(0));
    session.is_handed_back();
}

#[test]
fn it_follows_the_size_of_the_terminal() {
    let mut session = Session::start(24, 80, &[], &[]);
    session.wait_for_text("[1 overview]");
    session.pty.resize(Size::new(12, 40)).unwrap();
    session.parser.screen_mut().set_size(12, 40);
    session.wait_for_text("psi cpu");
    session.press("\x03");
    assert_eq!(session.end().code(), Some(0));
    session.is_handed_back();
}

/// Promise (The recorder): `top` restores the terminal, also after a signal and while suspended; it works at any
/// size, also without colour and Unicode.
#[test]
fn a_signal_ends_it_and_the_terminal_is_handed_back() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut session = Session::start(24, 80, &[], &[]);
        session.wait_for_text("[1 overview]");
        session.signal(signal);
        assert_eq!(session.end().signal(), Some(signal.as_raw()));
        session.is_handed_back();
    }
}

#[test]
fn it_hands_the_terminal_back_while_it_is_suspended() {
    let mut session = Session::start(24, 80, &[], &[]);
    session.wait_for_text("[1 overview]");
    session.signal(Signal::TSTP);
    session.wait_for("usual screen", |session| !session.parser.screen().alternate_screen());
    session.wait_for("cooked terminal", |session| !session.is_raw());
    session.wait_for("stopped program", Session::is_stopped);
    session.signal(Signal::CONT);
    session.wait_for("raw terminal", Session::is_raw);
    session.wait_for_text("[1 overview]");
    session.press("q");
    assert_eq!(session.end().code(), Some(0));
    session.is_handed_back();
}

#[test]
fn no_colour_and_no_unicode_where_the_terminal_has_none() {
    let bare = [("NO_COLOR", "1"), ("LC_ALL", "C")];
    let mut session = Session::start(24, 80, &[], &bare);
    session.wait_for_text("[1 overview]");
    session.press("q");
    assert_eq!(session.end().code(), Some(0));
    let text = String::from_utf8_lossy(&session.written).into_owned();
    assert!(text.is_ascii(), "{text}");
    for colour in ["\x1b[31", "\x1b[32", "\x1b[33", "\x1b[36", "\x1b[38;5;"] {
        assert!(!text.contains(colour), "{colour:?}");
    }
}

const START_MS: u64 = 1_700_000_040_000;
const PAGE_BYTES: u64 = 4096;

/// Ten minutes of this machine, in which programs reclaim from the fifth minute on, and an incident
/// then.
fn recording(dir: &Path) -> PathBuf {
    let path = dir.join("machine.mwr");
    let host = Host { page_bytes: PAGE_BYTES, cpus: 2, ..Host::default() };
    let writer = Writer::start(&path, &host, Retention::default()).unwrap();
    let source = Source::live().unwrap();
    let mut tick = Tick::default();
    Sampler::open(&source, &mw_collect::nodes(&source)).sample(&mut tick.sample);
    let Reading::Value(mut vmstat) = tick.sample.vmstat.clone() else { panic!("no /proc/vmstat") };
    vmstat.set(Counter::PgscanDirect, Some(0));
    let layout = Layout::from_tick(&tick);
    writer.layout(layout.names());
    let mut row = Vec::new();
    for second in 0..600_u64 {
        vmstat.set(Counter::PgscanDirect, Some(second.saturating_sub(300) * 54_321));
        tick.sample.vmstat = Reading::Value(vmstat.clone());
        layout.write(&tick, &mut row);
        let is_taken = || writer.offer(START_MS + second * 1000, &row);
        mw_test::wait_until("the writer", PATIENCE, is_taken);
    }
    let incident = Incident {
        started_unix_ms: START_MS + 300_000,
        ended_unix_ms: START_MS + 312_000,
        verdict: "db waited 2.3 s: programs reclaimed".to_owned(),
        suffering: vec![Role { pid: 812, task: "mysqld".to_owned(), why: "waited".to_owned() }],
        ..Incident::default()
    };
    writer.keep_incident(incident).unwrap();
    path
}

/// Promise (The recorder): `top` shows any moment of a recording.
#[test]
fn a_recording_is_looked_at_at_any_time() {
    let dir = tempfile::TempDir::new().unwrap();
    let path = recording(dir.path());
    let path = path.to_str().unwrap();
    let mut session = Session::start(24, 100, &["--recording", path], &[]);
    session.wait_for_text("incident 1 of 1: db waited 2.3 s");
    session.wait_for_text("22:19:00 still");
    session.press("4");
    session.wait_for_text("mysqld");
    session.press("1\x1b[C\x1b[C");
    session.wait_for_text("54.3k");
    session.press("\x1b[6~");
    session.wait_for_text("22:20:02 still");
    session.press("\x1b[H");
    session.wait_for_text("22:14:00 still");
    session.press("n");
    session.wait_for_text("22:19:00 still");
    session.press("6");
    session.wait_for_text("programs reclaimed");
    session.press("G++ ");
    session.wait_for_text(" x5");
    session.press("q");
    assert_eq!(session.end().code(), Some(0));
    session.is_handed_back();
    let mut session = Session::start(24, 100, &["--recording", path, "--at", "22:16:30"], &[]);
    session.wait_for_text("22:16:30 still");
    drop(session);
    for (at, why) in [("22:30", "is not recorded"), ("later", "invalid time")] {
        let mut session = Session::start(24, 100, &["--recording", path, "--at", at], &[]);
        session.wait_for_text(why);
        assert_eq!(session.end().code(), Some(2));
    }
}

fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let program = env!("CARGO_BIN_EXE_memwright");
    let output = Command::new(program).arg("top").args(arguments).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn without_a_terminal_it_says_what_else_there_is() {
    let (code, message) = refused(&[]);
    assert_eq!(code, Some(2));
    assert!(message.contains("terminal") && message.contains("memwright check"), "{message}");
    assert_eq!(message.lines().count(), 1);
}

#[test]
fn what_cannot_be_meant_is_refused() {
    for arguments in
        [&["--interval", "0"][..], &["--interval", "2h"], &["--interval", "x"], &["--at", "10:19"]]
    {
        assert_eq!(refused(arguments).0, Some(2), "{arguments:?}");
    }
}
