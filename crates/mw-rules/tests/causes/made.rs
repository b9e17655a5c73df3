//! Made-up stalls: a machine as it was captured in a fixture, and what a recorder would have seen.

use mw_collect::input;
use mw_model::{
    BlockedTask, FloodShare, Host, Incident, KernelWait, Missing, NO_VALUE, Profile, Reading,
    Sample, Service, ServiceProcess, Shift, Stack, Table, TaskUse, Trigger, TriggerKind, WaitKind,
    Window,
};
use mw_proc::pressure::{Pressure, PressureLine};
use mw_proc::vmstat::Counter;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Beginning of every made-up stall.
const STARTED_MS: u64 = 1_700_000_000_000;

/// Rows a second, and for how long before and after the stall.
const ROW_MS: u64 = 100;
const BEFORE_MS: u64 = 3000;

/// A stall and the machine that it happened on.
#[derive(Clone)]
pub(crate) struct Made {
    pub(crate) incident: Incident,
    pub(crate) window: Window,
    pub(crate) calm: Option<Window>,
}

/// Time of either half of a canary that nothing holds up.
const CALM_US: u64 = 400;

impl Made {
    /// A stall of 8.2 s of a probed PostgreSQL, on the machine of a fixture: nothing seen yet, the
    /// canary calm, no counter moving.
    pub(crate) fn on(fixture: &str) -> Self {
        let window = captured(fixture);
        let host = Host { cpus: 4, memory_bytes: 2 << 30, page_bytes: 4096, ..Host::default() };
        let incident = Incident { id: 1, host, ..Incident::default() };
        let made = Self { incident, window, calm: None };
        made.trigger(TriggerKind::Probe, "postgres-5432", 8200.0).at_rest().canary(CALM_US, CALM_US)
    }

    /// Trigger, and its duration.
    pub(crate) fn trigger(mut self, kind: TriggerKind, name: &str, worst_ms: f64) -> Self {
        let failure = None;
        let name = name.to_owned();
        self.incident.trigger =
            Trigger { kind, name, limit_ms: 500.0, worst_ms, failure, failure_kind: None };
        self.incident.started_unix_ms = STARTED_MS;
        self.incident.seen_unix_ms = STARTED_MS + 500;
        self.incident.ended_unix_ms = STARTED_MS + worst_ms as u64;
        self
    }

    /// The process that the probe's requests go to.
    pub(crate) fn served_by(mut self, (pid, name): (u32, &str)) -> Self {
        let processes = vec![ServiceProcess { pid, name: name.to_owned() }];
        self.incident.service = Some(Service { processes, ..Service::default() });
        self
    }

    /// How the probe failed.
    pub(crate) fn failed(mut self, said: &str) -> Self {
        self.incident.trigger.failure = Some(said.to_owned());
        self
    }

    /// Neither a counter of vmstat moves nor does any task wait, during the stall and before it.
    fn at_rest(mut self) -> Self {
        self.window.now.sample.pressure.memory = pressure(0);
        self.window.now.sample.pressure.io = pressure(0);
        self.window.now.sample.pressure.cpu = pressure(0);
        let span_ms = self.incident.trigger.worst_ms;
        let before = Sample {
            at_ms: self.window.now.sample.at_ms - span_ms,
            ..self.window.now.sample.clone()
        };
        self.window.earlier = vec![before];
        self.calm = Some(self.window.clone());
        self
    }

    /// A counter goes up so often a second during the stall.
    pub(crate) fn counts(self, counter: Counter, per_s: f64) -> Self {
        self.counts_in_both(counter, 0.0, per_s)
    }

    /// The same before and during the stall.
    pub(crate) fn counts_in_both(mut self, counter: Counter, calm_per_s: f64, per_s: f64) -> Self {
        set_rate(&mut self.window, counter, per_s);
        if let Some(calm) = &mut self.calm {
            set_rate(calm, counter, calm_per_s);
        }
        self
    }

    /// The captured machine's own counters move as they did when it was captured.
    pub(crate) fn captured_rates(mut self, fixture: &str) -> Self {
        let captured = captured(fixture);
        for &counter in Counter::ALL {
            if let Ok(rate) = captured.rate(counter)
                && rate > 0.0
            {
                set_rate(&mut self.window, counter, rate);
            }
        }
        self
    }

    /// Share of the stall in which some task waited for memory, I/O and CPUs, in percent.
    pub(crate) fn pressed(mut self, memory: u64, io: u64, cpu: u64) -> Self {
        let us = |percent: u64| percent * 10 * self.incident.trigger.worst_ms as u64;
        let now = &mut self.window.now.sample.pressure;
        (now.memory, now.io, now.cpu) = (pressure(us(memory)), pressure(us(io)), pressure(us(cpu)));
        self
    }

    /// Longest times of the two halves of the canary, in microseconds, in the stall's last row; in
    /// others it is calm.
    pub(crate) fn canary(self, touch_us: u64, idle_us: u64) -> Self {
        let rows = self.incident.ended_unix_ms.saturating_sub(STARTED_MS) / ROW_MS;
        self.rows(rows, |row| {
            let last = row == rows;
            let (touch, idle) = if last { (touch_us, idle_us) } else { (CALM_US, CALM_US) };
            [touch, idle, CALM_US]
        })
    }

    /// Numbers of dirty pages during the stall, and of pages that were free or clean cache.
    pub(crate) fn dirty(self, pages: u64, others: u64) -> Self {
        self.level("nr_dirty", 0, pages)
            .level("nr_writeback", 0, 0)
            .level("nr_free_pages", others, others)
            .level("nr_active_file", 0, 0)
            .level("nr_inactive_file", pages, pages)
    }

    /// Values of a column of vmstat before the stall and during it.
    pub(crate) fn level(mut self, name: &str, before: u64, during: u64) -> Self {
        let rows = self.incident.table.at_unix_ms.iter();
        let values = rows.map(|at| if *at < STARTED_MS { before } else { during }).collect();
        let name = format!("vmstat.{name}");
        self.incident.table.columns.retain(|column| column.name != name);
        self.incident.table.columns.push(mw_model::Column { name, values });
        self
    }

    /// Value of a column of vmstat at a time, in milliseconds from the beginning of the stall.
    pub(crate) fn counter(mut self, name: &str, value_at: impl Fn(i64) -> u64) -> Self {
        let rows = self.incident.table.at_unix_ms.iter();
        let values = rows.map(|at| value_at(at.cast_signed() - STARTED_MS.cast_signed())).collect();
        self.incident
            .table
            .columns
            .push(mw_model::Column { name: format!("vmstat.{name}"), values });
        self
    }

    /// Number of pages that reclaim of the whole machine has scanned in each recorded row.
    pub(crate) fn scans(mut self, pages_per_row: u64) -> Self {
        let rows = self.incident.table.rows() as u64;
        let counts = |name: &str, per_row: u64| mw_model::Column {
            name: format!("vmstat.{name}"),
            values: (0..rows).map(|row| 70_000 + row * per_row).collect(),
        };
        let columns = [counts("pgscan_kswapd", pages_per_row), counts("pgscan_direct", 0)];
        self.incident.table.columns.extend(columns);
        self
    }

    /// Tracepoints may not be used on this machine.
    pub(crate) fn untraced(mut self) -> Self {
        let why = "only root may read it";
        self.incident.unseen.push(Missing::skipped("/sys/kernel/tracing", why));
        self.incident.waits.clear();
        self.incident.profile = None;
        self
    }

    /// A disk that is busy for so much of the stall, in percent.
    pub(crate) fn disk(mut self, name: &str, busy_percent: u64) -> Self {
        let column = format!("disk.{name}.busy_ms");
        let rows = self.incident.table.rows() as u64;
        let values = (0..rows).map(|row| row * ROW_MS * busy_percent / 100).collect();
        self.incident.table.columns.push(mw_model::Column { name: column, values });
        self
    }

    /// Bytes that a disk completes in the row at a time, in milliseconds from the beginning of the stall.
    pub(crate) fn writes(mut self, name: &str, bytes_at: impl Fn(i64) -> u64) -> Self {
        let mut sum = 0;
        let values = self.incident.table.at_unix_ms.iter().map(|at| {
            sum += bytes_at(at.cast_signed() - STARTED_MS.cast_signed());
            sum
        });
        let values = values.collect();
        let name = format!("disk.{name}.written_bytes");
        self.incident.table.columns.push(mw_model::Column { name, values });
        self
    }

    /// A disk that has requests in flight all the time, and completes none in this time of the stall, in milliseconds.
    pub(crate) fn hangs(self, name: &str, time: std::ops::Range<i64>) -> Self {
        let mut made = self.writes(name, |at| if time.contains(&at) { 0 } else { 1 << 20 });
        let table = &mut made.incident.table;
        let rows = table.at_unix_ms.len();
        let column = |field: &str, value| mw_model::Column {
            name: format!("disk.{name}.{field}"),
            values: vec![value; rows],
        };
        table.columns.extend([column("read_bytes", 0), column("in_flight", 3)]);
        made
    }

    fn rows(mut self, stall_rows: u64, row: impl Fn(u64) -> [u64; 3]) -> Self {
        let names = ["canary.touch_us", "canary.idle_us", "canary.late_us"];
        let mut table = Table::new(names);
        for at in 0..BEFORE_MS / ROW_MS {
            table.push(STARTED_MS - BEFORE_MS + at * ROW_MS, &[CALM_US, CALM_US, NO_VALUE]);
        }
        for at in 0..=stall_rows {
            table.push(STARTED_MS + at * ROW_MS, &row(at));
        }
        self.incident.table = table;
        self
    }

    /// A task waits in the kernel.
    pub(crate) fn waits(
        mut self,
        (pid, task): (u32, &str),
        kind: WaitKind,
        ms: u64,
        count: u64,
    ) -> Self {
        let task = task.to_owned();
        let (order, node) = (None, None);
        let (total_us, max_us) = (ms * 1000, ms * 1000 / count.max(1) * 2);
        self.incident.waits.push(KernelWait {
            pid,
            task,
            kind,
            order,
            node,
            count,
            total_us,
            max_us,
        });
        self
    }

    /// The order and node of the waits so far.
    pub(crate) fn wanting(mut self, order: u32, node: u32) -> Self {
        for wait in &mut self.incident.waits {
            (wait.order, wait.node) = (Some(order), Some(node));
        }
        self
    }

    /// A task is found blocked, or stopped, in so many of 9 looks.
    pub(crate) fn blocked(
        mut self,
        (pid, task): (u32, &str),
        state: char,
        seen: u32,
        stack: &[&str],
    ) -> Self {
        let stack = stack.iter().map(|f| (*f).to_owned()).collect();
        let task = task.to_owned();
        self.incident.blocked.push(BlockedTask { pid, task, state, stack, seen, looks: 9 });
        self
    }

    /// Share of functions of all CPUs, before and during.
    pub(crate) fn shifts(
        mut self,
        function: &str,
        before_percent: f64,
        during_percent: f64,
    ) -> Self {
        self.incident.difference.push(Shift {
            function: function.to_owned(),
            before_percent,
            during_percent,
            ..Shift::default()
        });
        self
    }

    /// A stack of the profile, outermost function first.
    pub(crate) fn stack(
        mut self,
        (pid, task): (u32, &str),
        samples: u64,
        functions: &[&str],
    ) -> Self {
        let profile = self.incident.profile.get_or_insert_with(|| Profile {
            hz: 999,
            cpus: 4,
            span_ms: 8200,
            ..Profile::default()
        });
        let first = profile.functions.len() as u32;
        profile.functions.extend(functions.iter().map(|f| (*f).to_owned()));
        let frames = (first..first + functions.len() as u32).collect();
        profile.stacks.push(Stack { task: task.to_owned(), pid, frames, samples });
        self
    }

    /// A task uses CPU time and grows.
    pub(crate) fn uses(
        mut self,
        (pid, task): (u32, &str),
        user_ms: u64,
        growth_bytes: i64,
    ) -> Self {
        self.incident.tasks.push(TaskUse {
            pid,
            task: task.to_owned(),
            user_ms,
            resident_growth_bytes: growth_bytes,
            ..TaskUse::default()
        });
        self
    }

    /// A task brings so many pages of a file into the page cache.
    pub(crate) fn floods(mut self, (pid, task): (u32, &str), path: &str, pages: u64) -> Self {
        let (task, path, device) = (task.to_owned(), path.to_owned(), "sda".to_owned());
        self.incident.flood.push(FloodShare { pid, task, path, device, pages });
        self
    }
}

fn pressure(total_us: u64) -> Reading<Pressure> {
    let some = PressureLine { total_us, ..PressureLine::default() };
    Reading::Value(Pressure { some, full: Some(some) })
}

/// The machine of a fixture; each is read once.
fn captured(fixture: &str) -> Window {
    static READ: Mutex<BTreeMap<String, Window>> = Mutex::new(BTreeMap::new());
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    let window = read.entry(fixture.to_owned()).or_insert_with(|| {
        let source = input::open(&mw_test::fixture(fixture));
        mw_collect::window(&source.unwrap_or_else(|error| panic!("{error}")))
    });
    window.clone()
}

/// Sets what a counter was before, so that it goes up so often a second.
fn set_rate(window: &mut Window, counter: Counter, per_s: f64) {
    let span_s = window.span_ms().unwrap() / 1000.0;
    let grown = (per_s * span_s).round() as u64;
    let (Reading::Value(now), Some(Reading::Value(before))) =
        (&mut window.now.sample.vmstat, window.earlier.first_mut().map(|s| &mut s.vmstat))
    else {
        panic!("a fixture without vmstat")
    };
    let was = before.get(counter).unwrap_or(0);
    before.set(counter, Some(was));
    now.set(counter, Some(was + grown));
}
