//! `memwright why`: runs a command as time(1) does, or looks at a running program, and reports what it waited
//! for.

mod processes;
mod running;

use crate::args::WhyArgs;
use crate::command::child;
use crate::output::{self, Readers};
use crate::{Exit, Failure};
use mw_critical_path::{RequestSpan, Trace, critical_path};
use mw_model::Missing;
use mw_profile::SchedTracer;
use mw_sys::{ResourceUsage, exit_descriptor, is_readable_within, kernel_file};
use mw_unwind::{NamingLimits, name_functions};
use processes::{ProgramProcesses, with_cgroups};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, setrlimit};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Interval at which signals are passed on.
const ROUND: Duration = Duration::from_millis(100);

pub(crate) fn run(args: &WhyArgs) -> Result<Exit, Failure> {
    if let Some(processes) = ProgramProcesses::of(args)? {
        let traced = running::trace(&processes, args)?;
        crate::terminal::print_page(&traced.page);
        write_output(args, &|| traced.json())?;
        return Ok(Exit::Fine);
    }
    let Some((name, rest)) = args.command.split_first() else {
        return Err(Failure::new(Exit::Usage, "no command given (use: memwright why -- COMMAND)"));
    };
    let signals = Signals::catch()?;
    let mut tracer = SchedTracer::open(running::trace_options(args));
    if let Ok(tracer) = &mut tracer {
        tracer.start(&[]);
    }
    let began = Instant::now();
    let child = child::spawn(name, rest)?;
    let pid = child.id();
    let usage = wait(child, tracer.as_mut().ok(), &signals)?;
    let wall = began.elapsed();
    match tracer {
        Ok(tracer) => explain(args, pid, &tracer.finish())?,
        Err(missing) => untraced(&usage, wall, &missing),
    }
    end_likewise(usage.status);
    Ok(Exit::from_status(usage.status))
}

/// Signals that end a command. Those that a terminal sends reach it without us; others are passed on.
struct Signals {
    passed_on: Vec<(Signal, Arc<AtomicBool>)>,
}

impl Signals {
    /// Catches them, so that the report is written whatever ends the command. A caught signal is at its
    /// default again in the command.
    fn catch() -> Result<Self, Failure> {
        let catch = |number| {
            let flag = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register(number, Arc::clone(&flag))
                .map(|_| flag)
                .map_err(|error| Failure::new(Exit::CouldNotCheck, format!("sigaction: {error}")))
        };
        Ok(Self {
            passed_on: vec![
                (Signal::INT, catch(SIGINT)?),
                (Signal::QUIT, catch(SIGQUIT)?),
                (Signal::TERM, catch(SIGTERM)?),
                (Signal::HUP, catch(SIGHUP)?),
            ],
        })
    }

    fn pass_on(&self, pid: Pid) {
        for (signal, came) in &self.passed_on {
            let by_terminal = matches!(*signal, Signal::INT | Signal::QUIT) && is_in_foreground();
            if came.swap(false, Ordering::Relaxed) && !by_terminal {
                // Until it is waited for, the number is the command's.
                let _ = kill_process(pid, *signal);
            }
        }
    }
}

/// True if a key of the terminal sends signals to this process, and with it to the command.
fn is_in_foreground() -> bool {
    let group = kernel_file::open("/dev/tty").and_then(|tty| Ok(rustix::termios::tcgetpgrp(tty)?));
    group.is_ok_and(|group| group == rustix::process::getpgrp())
}

/// Waits for the command and reads the trace meanwhile.
fn wait(
    child: Child,
    mut tracer: Option<&mut SchedTracer>,
    signals: &Signals,
) -> Result<ResourceUsage, Failure> {
    let pid = Pid::from_child(&child);
    let ended = exit_descriptor(&child).map_err(child::not_waited)?;
    loop {
        let is_over = match tracer.as_deref_mut() {
            Some(tracer) => tracer.wait(Some(ended.as_fd()), ROUND),
            None => is_readable_within(ended.as_fd(), ROUND),
        };
        if is_over {
            return mw_sys::wait_with_usage(child).map_err(child::not_waited);
        }
        signals.pass_on(pid);
    }
}

/// The path of the command, from its creation to its end, on standard error as time(1) has it.
fn explain(args: &WhyArgs, pid: u32, trace: &Trace) -> Result<(), Failure> {
    let (born, ended) = trace.lifetime(pid);
    let request = RequestSpan {
        task: pid,
        from: born.unwrap_or(trace.from),
        to: ended.unwrap_or(trace.to),
        ..RequestSpan::default()
    };
    let path = critical_path(trace, request);
    let mut summary = with_cgroups(path.summary(trace));
    name_functions(&mut [&mut summary], trace, NamingLimits::COMMAND);
    crate::terminal::tell_page(&mw_render::text::critical_path(
        &summary,
        crate::terminal::error_layout(),
    ));
    write_output(args, &|| mw_render::trace_event::json(trace, &path, &summary))
}

/// Writes what was traced to the file that was asked for.
fn write_output(args: &WhyArgs, json: &dyn Fn() -> String) -> Result<(), Failure> {
    match &args.output {
        Some(file) => {
            let json = json();
            let failed = |error: &std::io::Error| Failure::of_output(file, error, "--output");
            output::write(file, Readers::Owner, &failed, |into| {
                into.write_all(json.as_bytes()).map_err(|error| failed(&error))
            })
        }
        None => Ok(()),
    }
}

/// Facts that are known without a trace.
fn untraced(usage: &ResourceUsage, wall: Duration, missing: &Missing) {
    let ran = usage.user + usage.system;
    crate::terminal::tell(format_args!(
        "memwright: {:.2} s: user mode {:.2} s, kernel {:.2} s, not running about {:.2} s; \
         what it waited for was not traced: {missing}",
        wall.as_secs_f64(),
        usage.user.as_secs_f64(),
        usage.system.as_secs_f64(),
        wall.saturating_sub(ran).as_secs_f64(),
    ));
}

/// Ends this process by the signal that ended the command, where somebody sent one to stop both: shells and
/// scripts look at it.
fn end_likewise(status: ExitStatus) {
    let Some(signal) = status.signal() else { return };
    if [SIGHUP, SIGINT, SIGQUIT, SIGTERM].contains(&signal) {
        // SIGQUIT would leave a core of this program.
        let no_core = Rlimit { current: Some(0), maximum: Some(0) };
        let _ = setrlimit(Resource::Core, no_core);
        // Where it fails, the exit code says the same.
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    }
}
