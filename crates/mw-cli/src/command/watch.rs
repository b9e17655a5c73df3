//! `memwright watch`: records, and explains stalls, until it is told to end.

mod metrics;

use crate::args::{ServiceArg, WatchArgs};
use crate::config::{Config, DEFAULT_FILE};
use crate::journal_log::JournalLog;
use crate::{Exit, Failure, advice, secret_files, terminal};
use metrics::{Metrics, Recorder};
use mw_model::{Incident, Trigger, TriggerKind, format_duration_ms};
use mw_notify::{FINISH_LIMIT, Notifier, ReceiverConfig, ReceiverTarget, WebhookUrl};
use mw_probe::ProbeSpec;
use mw_record::{RecordError, Retention};
use mw_watch::{
    CanaryOptions, EvidenceRequestError, MAX_END, REQUESTED_MS, RequestedIncident, SIZES_INTERVAL,
    Watch, WatchError, WatchEvent, WatchOptions, request_evidence,
};
use mw_web::WebConfig;
use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// From one attempt to the next to begin a recording on a full file system.
const ROOM_INTERVAL: Duration = Duration::from_secs(2);

/// Between two looks at signals, watchdog and trouble.
const TURN: Duration = Duration::from_secs(1);

/// A capture of what changes seldom is added so often; after an incident sooner, but it takes a second of CPU time,
/// which stalls that follow one another shall not add to.
const CAPTURE_INTERVAL: Duration = Duration::from_secs(3600);
const CAPTURE_INTERVAL_LEAST: Duration = Duration::from_secs(60);

/// The watchdog is fed only while the counters are looked at, and every thread makes progress.
const MAX_SILENCE_MS: u64 = 5000;

const MAX_PROBES: usize = 64;

pub(crate) fn run(args: &WatchArgs, config: &Config, file: Option<&Path>) -> Result<Exit, Failure> {
    if args.now {
        return now(&config.recording(args.recording.as_deref()));
    }
    if args.check_config {
        return check_config(&RecorderSettings::new(args, config, file)?);
    }
    mw_sys::return_freed_memory_to_kernel();
    let (end, reload) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    listen(&end, &reload)
        .map_err(|error| Failure::new(Exit::CouldNotCheck, format!("signals: {error}")))?;
    let log = JournalLog::to_stderr();
    let mut settings = RecorderSettings::new(args, config, file)?;
    let mut metrics = start_metrics(settings.served.as_ref(), log)?;
    let Some(mut service) = RecorderService::start(&settings, log, &end, None)? else {
        return Ok(Exit::Fine);
    };
    while !end.load(Ordering::Relaxed) {
        service.turn(metrics.as_ref());
        if reload.swap(false, Ordering::Relaxed) {
            let new =
                Config::load(file).and_then(|config| RecorderSettings::new(args, &config, file));
            let new = match new {
                Ok(new) => new,
                Err(failure) => {
                    refuse(&failure, log);
                    continue;
                }
            };
            notify(&[NotifyState::Reloading, reload_time()]);
            let served = settings.served.clone();
            let announced = service.end();
            match restart(&mut settings, new, &announced, log, &end)? {
                Some(next) => service = next,
                None => return Ok(Exit::Fine),
            }
            // Counters go on where nothing has changed; a port is free only once it is closed.
            if settings.served != served {
                drop(metrics.take());
                metrics = start_metrics(settings.served.as_ref(), log)?;
            }
        }
    }
    notify(&[NotifyState::Stopping]);
    service.end();
    Ok(Exit::Fine)
}

/// Starts the recorder with the new settings, or with the former ones where it does not start with those.
fn restart(
    settings: &mut RecorderSettings,
    new: RecorderSettings,
    announced: &StartupLog,
    log: JournalLog,
    end: &AtomicBool,
) -> Result<Option<RecorderService>, Failure> {
    match RecorderService::start(&new, log, end, Some(announced)) {
        Ok(service) => {
            *settings = new;
            Ok(service)
        }
        Err(failure) => {
            let service = RecorderService::start(settings, log, end, None);
            refuse(&failure, log);
            service
        }
    }
}

fn refuse(failure: &Failure, log: JournalLog) {
    let line = format!("configuration not reloaded: {failure}");
    log.warning(&line);
    notify(&[NotifyState::Status(&line)]);
}

/// Reports a configuration that the recorder accepts. Its unit reloads no other one.
fn check_config(settings: &RecorderSettings) -> Result<Exit, Failure> {
    if let Some(file) = settings.served.as_ref().and_then(|served| served.web_config.clone()) {
        WebConfig::new(file).check().map_err(|why| Failure::new(Exit::Usage, why))?;
    }
    terminal::print(&format!("valid: {}\n", started(&settings.options)));
    Ok(Exit::Fine)
}

/// Has the recorder that is running take evidence.
fn now(recording: &Path) -> Result<Exit, Failure> {
    let begun = |id| {
        let time = format_duration_ms(REQUESTED_MS);
        terminal::tell(format_args!("incident {id}: taking evidence for {time}"));
    };
    let RequestedIncident { id, verdict } =
        request_evidence(recording, begun).map_err(|error| match error {
            EvidenceRequestError::Denied(_) => {
                Failure::new(Exit::PermissionDenied, advice::with_sudo(&error, true))
            }
            _ => Failure::new(Exit::CouldNotCheck, error),
        })?;
    terminal::print(&format!("incident {id}: {verdict}; see: memwright report {id}\n"));
    Ok(Exit::Fine)
}

/// Notes signals. After one that ends the recorder the process does end: whatever does not respond,
/// a terminal that nobody reads or a disk, holds it up for [`MAX_END`], and
/// notifications for [`FINISH_LIMIT`].
fn listen(end: &Arc<AtomicBool>, reload: &Arc<AtomicBool>) -> std::io::Result<()> {
    flag::register(SIGHUP, Arc::clone(reload))?;
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let end = Arc::clone(end);
    let wait = move || {
        if signals.forever().next().is_some() {
            end.store(true, Ordering::Relaxed);
            std::thread::sleep(MAX_END + FINISH_LIMIT + TURN);
            signal_hook::low_level::exit(Exit::CouldNotCheck.code().into());
        }
    };
    std::thread::Builder::new().name("mw-end".to_owned()).spawn(wait)?;
    Ok(())
}

/// Settings from flags and configuration.
struct RecorderSettings {
    options: WatchOptions,
    receivers: Vec<ReceiverConfig>,
    /// Address of the metrics, if they are served.
    served: Option<metrics::MetricsOptions>,
    /// Beside those of the listener.
    secret_files: Vec<PathBuf>,
}

impl RecorderSettings {
    fn new(args: &WatchArgs, config: &Config, file: Option<&Path>) -> Result<Self, Failure> {
        let mut options = options(args, config)?;
        let served = metrics_options(args, config, &options)?;
        options.group_waits = served.is_some();
        let receivers = config.notify()?;
        let mut secret_files: Vec<PathBuf> = receivers.iter().flat_map(secrets).collect();
        // Those of the command line are in the list of processes.
        let is_from_file = args.probes.is_empty();
        if is_from_file && options.probes.iter().any(|probe| probe.target.has_password()) {
            secret_files.push(file.unwrap_or(Path::new(DEFAULT_FILE)).to_owned());
        }
        Ok(Self { options, receivers, served, secret_files })
    }
}

/// The files with secrets of a receiver. One that is not found is reported when it is needed.
fn secrets(receiver: &ReceiverConfig) -> Vec<PathBuf> {
    let ReceiverTarget::Webhook(webhook) = &receiver.target else { return Vec::new() };
    let url = match &webhook.address {
        WebhookUrl::File(file) => Some(file),
        WebhookUrl::Url(_) => None,
    };
    url.into_iter().chain(&webhook.token).filter_map(|file| file.path().ok()).collect()
}

/// Log lines of a recorder's start.
struct StartupLog {
    started: String,
    warnings: Vec<String>,
}

impl StartupLog {
    fn new(watch: &Watch, options: &WatchOptions, secret_files: &[PathBuf]) -> Self {
        let missing = watch.unseen().iter().map(|missing| format!("not available: {missing}"));
        let exposed = secret_files.iter().filter_map(|path| secret_files::exposure(path));
        let notice = watch.notice().map(str::to_owned).into_iter();
        let warnings = notice.chain(exposed).chain(missing).collect();
        Self { started: started(options), warnings }
    }

    /// Logs it, after a reload only what has changed.
    fn log(&self, before: Option<&Self>, log: JournalLog) {
        match before {
            None => log.notice(&self.started),
            Some(before) if before.started == self.started => log.notice("configuration reloaded"),
            Some(_) => log.notice(&format!("configuration reloaded; {}", self.started)),
        }
        let is_new = |line: &&String| before.is_none_or(|before| !before.warnings.contains(line));
        self.warnings.iter().filter(is_new).for_each(|line| log.warning(line));
    }
}

/// The recorder with what is around it.
struct RecorderService {
    watch: Watch,
    announced: StartupLog,
    notifier: Notifier,
    log: JournalLog,
    trouble: Option<String>,
    /// The thread that was said to make no progress.
    stuck: Option<String>,
    captured: Option<Instant>,
    /// An incident has ended since the last capture.
    is_capture_wanted: bool,
}

impl RecorderService {
    /// `None`: it was told to end before it could record.
    fn start(
        RecorderSettings { options, receivers, secret_files, .. }: &RecorderSettings,
        log: JournalLog,
        end: &AtomicBool,
        before: Option<&StartupLog>,
    ) -> Result<Option<Self>, Failure> {
        let notifier = Notifier::start(receivers.clone())
            .map_err(|error| Failure::new(Exit::CouldNotCheck, format!("notify: {error}")))?;
        let Some(watch) = start_watch(options, log, end)? else { return Ok(None) };
        let announced = StartupLog::new(&watch, options, secret_files);
        announced.log(before, log);
        notify(&[NotifyState::Ready, NotifyState::Status(&announced.started)]);
        let (trouble, stuck, captured, is_capture_wanted) = (None, None, None, false);
        Ok(Some(Self {
            watch,
            announced,
            notifier,
            log,
            trouble,
            stuck,
            captured,
            is_capture_wanted,
        }))
    }

    /// Waits for a while for something to say.
    fn turn(&mut self, metrics: Option<&Metrics>) {
        match self.watch.event(TURN) {
            Some(WatchEvent::Begun(trigger)) => {
                self.log.warning(&begun(&trigger));
                metrics.inspect(|metrics| metrics.begin(&trigger));
            }
            Some(WatchEvent::Provisional(incident)) => {
                self.notifier.tell(&incident);
                self.log.warning(&provisional(&incident));
            }
            Some(WatchEvent::Updated(incident)) => self.notifier.tell(&incident),
            Some(WatchEvent::Incident(incident)) => {
                self.notifier.tell(&incident);
                self.log.warning(&summary(&incident));
                metrics.inspect(|metrics| metrics.end(&incident));
                self.is_capture_wanted = true;
            }
            Some(WatchEvent::NotCaptured(error)) => self.not_captured(&error),
            Some(WatchEvent::Delayed { incident, error }) => {
                self.notifier.tell(&incident);
                self.log.error(&format!("{}; not yet recorded: {error}", incident.verdict));
                metrics.inspect(|metrics| metrics.end(&incident));
            }
            None => {}
        }
        self.notifier.lines().for_each(|line| self.log.warning(&line));
        let trouble = self.watch.trouble();
        if trouble != self.trouble {
            match &trouble {
                Some(trouble) => self.log.error(&format!("recording stopped: {trouble}")),
                None => self.log.notice("recording resumed"),
            }
            self.trouble = trouble;
        }
        let interval =
            if self.is_capture_wanted { CAPTURE_INTERVAL_LEAST } else { CAPTURE_INTERVAL };
        if self.captured.is_none_or(|at| at.elapsed() >= interval) {
            self.captured = Some(Instant::now());
            self.is_capture_wanted = false;
            if let Err(error) = self.watch.capture() {
                self.not_captured(&error);
            }
        }
        let sample_age_ms = self.watch.last_look_ms();
        if let Some(metrics) = metrics {
            metrics.recorder(Recorder { is_recording: self.trouble.is_none(), sample_age_ms });
            metrics.waits(self.watch.group_waits());
        }
        if sample_age_ms <= MAX_SILENCE_MS && !self.is_stuck() {
            notify(&[NotifyState::Watchdog]);
        }
    }

    /// True if a thread makes no progress: said once of each.
    fn is_stuck(&mut self) -> bool {
        let stuck = self.watch.stuck();
        if let Some(stuck) = stuck.as_ref().filter(|one| self.stuck.as_ref() != Some(&one.thread)) {
            self.log.error(&format!("{stuck}; the watchdog is not fed while that is so"));
        }
        self.stuck = stuck.map(|stuck| stuck.thread);
        self.stuck.is_some()
    }
}

impl RecorderService {
    /// Ends it; notifications of incidents get a moment more.
    fn end(self) -> StartupLog {
        let Self { watch, announced, notifier, log, .. } = self;
        drop(watch);
        notifier.finish().iter().for_each(|line| log.warning(line));
        announced
    }

    fn not_captured(&self, error: &std::io::Error) {
        self.log.warning(&format!("cannot capture the kernel's state: {error}"));
    }
}

/// Starts to record. A full file system is trouble that passes, at the start as later: it is tried until there is room,
/// or the process is told to end.
fn start_watch(
    options: &WatchOptions,
    log: JournalLog,
    end: &AtomicBool,
) -> Result<Option<Watch>, Failure> {
    let mut is_told = false;
    loop {
        match Watch::start(options.clone()) {
            Err(WatchError::Record(full @ RecordError::Full { .. })) => {
                if !is_told {
                    log.error(&format!("not recording yet: {full}"));
                    is_told = true;
                }
            }
            started => return started.map(Some).map_err(failure),
        }
        // The service manager would only start it again.
        notify(&[NotifyState::Ready, NotifyState::Watchdog]);
        let next = Instant::now() + ROOM_INTERVAL;
        while Instant::now() < next {
            if end.load(Ordering::Relaxed) {
                return Ok(None);
            }
            std::thread::sleep(TURN);
        }
    }
}

/// Flags, then the configuration, then what is usual.
fn options(args: &WatchArgs, config: &Config) -> Result<WatchOptions, Failure> {
    let watch = config.watch();
    let settings = watch.settings(&args.settings);
    let probes = if args.probes.is_empty() { watch.probes()? } else { args.probes.clone() };
    if probes.len() > MAX_PROBES {
        let line = format!("too many probes: {} (at most {MAX_PROBES})", probes.len());
        return Err(Failure::new(Exit::Usage, line));
    }
    let limit = settings.limit.unwrap_or(Duration::from_millis(500));
    let interval = settings.interval.unwrap_or(Duration::from_secs(1));
    let timeout = settings.timeout.unwrap_or(Duration::from_secs(30));
    let mut specs: Vec<ProbeSpec> = Vec::new();
    for probe in probes {
        let name = probe.name.unwrap_or_else(|| probe.target.default_name());
        if specs.iter().any(|spec| spec.name == name) {
            let line = format!("duplicate probe name '{name}' (use NAME=URL)");
            return Err(Failure::new(Exit::Usage, line));
        }
        let limit = probe.limit.unwrap_or(limit);
        let timeout = timeout.max(limit);
        let details = probe.details;
        specs.push(ProbeSpec { name, target: probe.target, limit, interval, timeout, details });
    }
    for ServiceArg { probe, service } in &args.services {
        let spec = specs.iter_mut().find(|spec| spec.name == *probe).ok_or_else(|| {
            let line = format!("--service: no probe is named '{probe}' (use --probe {probe}=URL)");
            Failure::new(Exit::Usage, line)
        })?;
        spec.details.service = Some(service.clone().into());
    }
    let usual = CanaryOptions::default();
    let canary = CanaryOptions {
        interval: settings.canary_interval.unwrap_or(usual.interval),
        limit: settings.canary_limit.unwrap_or(usual.limit),
    };
    let kept = Retention::default();
    Ok(WatchOptions {
        recording: config.recording(args.recording.as_deref()),
        retention: Retention {
            max_age: settings.keep.unwrap_or(kept.max_age),
            max_bytes: settings.max_size.unwrap_or(kept.max_bytes),
            ..kept
        },
        probes: specs,
        canary: (!args.no_canary && watch.canary.unwrap_or(true)).then_some(canary),
        token_timeout: settings.token_timeout,
        profile: !args.no_profile && watch.profile.unwrap_or(true),
        user_stacks: !args.no_user_stacks && watch.user_stacks.unwrap_or(true),
        group_waits: false,
        sizes_interval: SIZES_INTERVAL,
    })
}

/// Address of the metrics, if they are served.
fn metrics_options(
    args: &WatchArgs,
    config: &Config,
    options: &WatchOptions,
) -> Result<Option<metrics::MetricsOptions>, Failure> {
    let web_config = args.web_config.clone().or_else(|| config.watch().web_config_file.clone());
    let Some(listen) = args.listen.or(config.watch().listen) else {
        return match web_config {
            Some(_) => Err(Failure::new(Exit::Usage, "--web.config.file needs --listen")),
            None => Ok(None),
        };
    };
    let own = [
        ("canary", options.canary.is_some()),
        ("heartbeat", options.token_timeout.is_some()),
        ("pressure", true),
        ("oom_kill", true),
    ];
    let own = own.iter().filter(|(_, is_there)| *is_there).map(|(name, _)| (*name).to_owned());
    Ok(Some(metrics::MetricsOptions {
        listen,
        web_config,
        probes: options.probes.iter().map(|spec| spec.name.clone()).chain(own).collect(),
        recording: options.recording.clone(),
        pools: config.pool().socket(),
    }))
}

fn start_metrics(
    options: Option<&metrics::MetricsOptions>,
    log: JournalLog,
) -> Result<Option<Metrics>, Failure> {
    options.map(|options| Metrics::start(options.clone(), log)).transpose()
}

fn started(options: &WatchOptions) -> String {
    let probes: Vec<String> =
        options.probes.iter().map(|spec| format!("{} ({})", spec.name, spec.target)).collect();
    let watched = match probes.len() {
        0 => "no service is probed (add one with --probe)".to_owned(),
        _ => format!("watching {}", probes.join(", ")),
    };
    format!("recording to {}; {watched}", options.recording.display())
}

/// A sample has exceeded its limit, or a request failed within it.
fn begun(trigger: &Trigger) -> String {
    if trigger.kind == TriggerKind::Requested {
        return "evidence on request: collecting it".to_owned();
    }
    if trigger.kind == TriggerKind::OomKill {
        return "the OOM killer killed a process; collecting evidence".to_owned();
    }
    let what = if trigger.failed_at_once() {
        "failed".to_owned()
    } else {
        format!("exceeded its limit of {}", format_duration_ms(trigger.limit_ms))
    };
    format!("stall: {} {what}; collecting evidence", trigger.name)
}

/// The incident in one line, and how to see more.
fn summary(incident: &Incident) -> String {
    let Incident { id, verdict, .. } = incident;
    format!("incident {id}: {verdict}; see: memwright report {id}")
}

fn failure(error: WatchError) -> Failure {
    let failure = Failure::from_error(&error);
    if failure.exit == Exit::PermissionDenied {
        let line = format!("{error}; choose another file with --recording");
        return Failure::new(failure.exit, advice::with_sudo(&line, true));
    }
    failure
}

/// Tells the service manager, where there is one.
fn notify(states: &[NotifyState<'_>]) {
    let _ = sd_notify::notify(states);
}

fn reload_time() -> NotifyState<'static> {
    NotifyState::monotonic_usec_now().unwrap_or(NotifyState::Status("reloading"))
}

/// A stall that lasts, with what explains it so far.
fn provisional(incident: &Incident) -> String {
    let Incident { id, verdict, .. } = incident;
    format!("incident {id}, open: {verdict} (provisional)")
}
