//! The critical path of a command as text: the answer, a bar, a table, and the chain of waits.

use super::{Layout, MIN_WIDTH, Page};
use crate::visible::on_terminal;
use anstyle::{AnsiColor, Color, Style};
use mw_critical_path::{
    CpuHolder, Hop, Kind, Nanos, Path, RunMode, Share, StackId, Tid, Trace, Unseen, Wait,
    sibling_wait,
};
use mw_model::format_duration_ms;

/// Parts below this share are summed up.
const LEAST_PERCENT: f64 = 1.0;
const MAX_ROWS: usize = 10;
const MAX_CHAIN: usize = 8;
const MAX_FUNCTIONS: usize = 5;
/// Functions in which every task waits or is switched.
const SCHEDULER: [&str; 6] =
    ["__schedule", "schedule", "__traceiter_", "perf_trace_", "preempt_schedule", "__cond_resched"];

/// Where the time of a command went, in one screen.
pub fn critical_path(trace: &Trace, path: &Path, layout: Layout) -> String {
    let layout = Layout { width: layout.width.max(MIN_WIDTH), ..layout };
    let mut view = View { trace, path, page: Page { layout, text: String::new() } };
    view.write();
    on_terminal(&view.page.text, layout.colour)
}

struct View<'a> {
    trace: &'a Trace,
    path: &'a Path,
    page: Page,
}

impl View<'_> {
    fn write(&mut self) {
        let shares = self.path.shares();
        let Some(largest) = shares.first() else { return };
        let total = duration(self.path.duration());
        let answer = format!(
            "{total}; {:.0}% of it: {} {}",
            self.percent(largest.total),
            self.task(self.task_of(largest)),
            self.did(largest.kind),
        );
        let bold = Style::new().bold();
        let answer = self.page.painted(bold, &answer);
        self.page.line(&answer);
        self.bar(&shares);
        self.table(&shares);
        self.chain(largest);
        self.stack(largest);
        self.remarks();
    }

    fn percent(&self, part: Nanos) -> f64 {
        part as f64 * 100.0 / (self.path.duration().max(1)) as f64
    }

    fn task_of(&self, share: &Share) -> Tid {
        self.path.hops.get(share.hop).map_or(0, |hop| hop.task)
    }

    fn task(&self, tid: Tid) -> String {
        let name = self.trace.task_name(tid);
        let process = self.trace.process(tid);
        match name {
            "" => format!("task {tid}"),
            _ if process == tid => format!("{name} ({tid})"),
            _ => format!("{name} ({tid}, of {process})"),
        }
    }

    /// One bar over the width, a colour or shade a share.
    fn bar(&mut self, shares: &[Share]) {
        let width = self.page.layout.width.min(80);
        let mut bar = String::new();
        let mut drawn = 0;
        for (index, share) in shares.iter().enumerate() {
            let cells = (self.percent(share.total) * width as f64 / 100.0).round() as usize;
            let cells = cells.min(width - drawn);
            drawn += cells;
            bar.push_str(&self.page.painted(colour(index), &shade(index).repeat(cells)));
        }
        self.page.line(&bar);
    }

    fn table(&mut self, shares: &[Share]) {
        let rows = shares.iter().take(MAX_ROWS);
        let shown: Vec<&Share> =
            rows.filter(|share| self.percent(share.total) >= LEAST_PERCENT).collect();
        for (index, share) in shown.iter().enumerate() {
            let mark = self.page.painted(colour(index), shade(index));
            let text = format!(
                "{:5.1}%  {:>9}  {}  [{}]",
                self.percent(share.total),
                duration(share.total),
                self.kind(share.kind),
                self.task(self.task_of(share)),
            );
            self.page.line(&format!("{mark} {}", mw_model::visible::line(&text)));
        }
        let rest: Nanos = shares.iter().skip(shown.len()).map(|share| share.total).sum();
        let others = shares.len() - shown.len();
        if others > 0 {
            let percent = self.percent(rest);
            let text = format!("  {percent:5.1}%  {:>9}  {others} smaller parts", duration(rest));
            self.page.line(&text);
        }
    }

    /// Which task waited for which, from the command to the largest part.
    fn chain(&mut self, largest: &Share) {
        let chain = self.path.chain(largest.hop);
        if chain.len() < 2 {
            return;
        }
        self.page.heading("chain of waits");
        let skipped = chain.len().saturating_sub(MAX_CHAIN);
        let waits: Vec<(Hop, Hop)> =
            chain.iter().copied().zip(chain.iter().copied().skip(1)).skip(skipped).collect();
        if skipped > 0 {
            self.page.line(&format!("  ({skipped} more before)"));
        }
        for (waiter, other) in waits {
            let wait = other.waited_for_by.map_or(Wait::Unknown, |(_, wait)| wait);
            let (waiter, other) = (self.task(waiter.task), self.task(other.task));
            let text = format!("{waiter} waited for {other} ({})", wait.label());
            self.page.folded(2, "", &text);
        }
        let last = format!(
            "{} {}: {}",
            self.task(self.task_of(largest)),
            self.did(largest.kind),
            duration(largest.total)
        );
        self.page.folded(2, "", &last);
    }

    fn stack(&mut self, largest: &Share) {
        for (what, stack) in [("in", largest.stack), ("woken by", largest.waker_stack)] {
            let functions = self.functions(stack);
            if !functions.is_empty() {
                self.page.folded(2, "", &format!("{what}: {}", functions.join(" < ")));
            }
        }
    }

    fn functions(&self, stack: StackId) -> Vec<&str> {
        let functions = self.trace.stack(stack).iter().map(String::as_str);
        let is_known = |function: &&str| !SCHEDULER.iter().any(|of| function.starts_with(of));
        functions.filter(is_known).take(MAX_FUNCTIONS).collect()
    }

    /// What limits the answer.
    fn remarks(&mut self) {
        if let Some(sibling) = sibling_wait(self.trace, self.path) {
            let text = format!(
                "likely: {} of the same process waited {} for {} meanwhile",
                self.task(sibling.task),
                duration(sibling.total),
                sibling.wait.label()
            );
            self.page.folded(2, "", &text);
        }
        if self.trace.lost > 0 {
            let text = format!("{} events were lost: the parts may be wrong", self.trace.lost);
            self.page.folded(2, "", &text);
        }
        if self.trace.from > self.path.from {
            let text = format!(
                "only the last {} were traced: the buffer was full",
                duration(self.path.to.saturating_sub(self.trace.from))
            );
            self.page.folded(2, "", &text);
        }
    }

    /// A kind of time as a row of the table has it.
    fn kind(&self, kind: Kind) -> String {
        match kind {
            Kind::Running(RunMode::User) => "running in user mode".to_owned(),
            Kind::Running(RunMode::Kernel(work)) => {
                format!("running in the kernel: {}", work.label())
            }
            Kind::Running(RunMode::In(wait)) => format!("running in the kernel: {}", wait.label()),
            Kind::Running(RunMode::Unsampled) => "running".to_owned(),
            Kind::Runnable(CpuHolder::Task(tid)) => {
                format!("waiting for a CPU, most used by {}", self.task(tid))
            }
            Kind::Runnable(CpuHolder::Idle) => "runnable while its CPU was idle".to_owned(),
            Kind::Runnable(CpuHolder::Unknown) => "waiting for a CPU".to_owned(),
            Kind::Waiting(wait) => wait.label().to_owned(),
            Kind::TimedOut(wait) => format!("{} until a time limit", wait.label()),
            Kind::Stopped => "stopped".to_owned(),
            Kind::Unseen(Unseen::NeverRan) => "not traced: never ran".to_owned(),
            Kind::Unseen(Unseen::NotThere) => "not traced: the task did not exist".to_owned(),
            Kind::Unseen(Unseen::NotWoken(wait)) => format!("{}, not woken", wait.label()),
            Kind::Unseen(Unseen::TooDeep) => "longer chains of waits".to_owned(),
        }
    }

    /// A kind of time as the predicate of a sentence about a task.
    fn did(&self, kind: Kind) -> String {
        match kind {
            Kind::Running(RunMode::User) => "ran in user mode".to_owned(),
            Kind::Running(RunMode::Kernel(work)) => format!("ran in the kernel: {}", work.label()),
            Kind::Running(RunMode::In(wait)) => format!("ran in the kernel: {}", wait.label()),
            Kind::Running(RunMode::Unsampled) => "ran".to_owned(),
            Kind::Runnable(CpuHolder::Task(tid)) => {
                format!("waited for a CPU, most used by {}", self.task(tid))
            }
            Kind::Runnable(CpuHolder::Idle) => {
                "was runnable while its CPU was idle (throttled by a CPU quota?)".to_owned()
            }
            Kind::Runnable(CpuHolder::Unknown) => "waited for a CPU".to_owned(),
            Kind::Waiting(Wait::Sleep) => "slept by its own timer".to_owned(),
            Kind::Waiting(wait @ (Wait::CgroupFrozen | Wait::CpuQuota | Wait::MemoryHigh)) => {
                format!("was {}", wait.label())
            }
            Kind::Waiting(wait) => format!("waited for {}", wait.label()),
            Kind::TimedOut(wait) => {
                format!("waited for {} until a time limit passed", wait.label())
            }
            Kind::Stopped => "was stopped by a signal".to_owned(),
            Kind::Unseen(Unseen::NeverRan) => "never ran while traced".to_owned(),
            Kind::Unseen(Unseen::NotThere) => "did not exist".to_owned(),
            Kind::Unseen(Unseen::NotWoken(wait)) => {
                format!("waited for {} and was not woken", wait.label())
            }
            Kind::Unseen(Unseen::TooDeep) => "waited for a longer chain of tasks".to_owned(),
        }
    }
}

fn duration(time: Nanos) -> String {
    format_duration_ms(time as f64 / 1e6)
}

fn colour(index: usize) -> Style {
    let colours = [
        AnsiColor::Red,
        AnsiColor::Yellow,
        AnsiColor::Blue,
        AnsiColor::Green,
        AnsiColor::Magenta,
        AnsiColor::Cyan,
    ];
    let colour = colours.get(index).copied().unwrap_or(AnsiColor::White);
    Style::new().fg_color(Some(Color::Ansi(colour)))
}

fn shade(index: usize) -> &'static str {
    ["█", "▓", "▒", "░"].get(index).copied().unwrap_or("·")
}
