//! `watch --listen`: metrics for Prometheus.
//!
//! One thread looks at the machine at an interval and writes the page in both formats; a scrape copies what is there.
//! Neither waits for the recorder, nor the recorder for them. An address that cannot be bound is retried, and a web
//! configuration that is wrong closes connections until it is right: the recorder goes on.

use crate::args::Listen;
use crate::journal_log::JournalLog;
use crate::{Exit, Failure, secret_files};
use listenfd::ListenFd;
use mw_collect::Source;
use mw_metrics::{Exposition, MetricsPage, StallMetrics};
use mw_model::{BlameParty, Calibration, GroupWait, PageSize, Request as Wanted, Trigger, Window};
use mw_rules::preflight;
use mw_sys::HelperThread;
use mw_web::{HttpRequest, HttpService, Protection, Response, WebConfig, WebServer};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// From one look at the machine to the next: that of Prometheus' usual scrape, for a look takes about 20 ms of a CPU.
const INTERVAL: Duration = Duration::from_secs(15);

/// From one calibration to the next: it takes up to 50 ms.
const CALIBRATION_INTERVAL: Duration = Duration::from_secs(300);

/// Time limit of a check: a file system may not respond.
const PATIENCE: Duration = Duration::from_secs(5);

/// The request that a calibration is made for.
const CALIBRATED_BYTES: u64 = 1 << 30;

const NICE: i32 = 19;

/// Address of the metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MetricsOptions {
    pub(crate) listen: Listen,
    pub(crate) web_config: Option<PathBuf>,
    /// Names of all that may stall, for series that begin with 0.
    pub(crate) probes: Vec<String>,
    /// Beside it lies its forecast.
    pub(crate) recording: PathBuf,
    /// Socket of the pool server.
    pub(crate) pools: PathBuf,
}

/// State of the recorder.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Recorder {
    pub(crate) is_recording: bool,
    pub(crate) sample_age_ms: u64,
}

/// The metrics of a recorder; dropping it closes the listener.
#[derive(Debug)]
pub(crate) struct Metrics {
    shared: Arc<SharedMetrics>,
    /// Its end ends the thread.
    wake: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct SharedMetrics {
    state: Mutex<MetricsState>,
    log: JournalLog,
}

#[derive(Debug, Default)]
struct MetricsState {
    stalls: StallMetrics,
    recorder: Recorder,
    text: Arc<str>,
    open_metrics: Arc<str>,
}

impl Metrics {
    pub(crate) fn start(options: MetricsOptions, log: JournalLog) -> Result<Self, Failure> {
        let mut state = MetricsState::default();
        options.probes.iter().for_each(|probe| state.stalls.watch(probe));
        let shared = Arc::new(SharedMetrics { state: Mutex::new(state), log });
        let (wake, woken) = channel();
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("mw-metrics".to_owned())
            .spawn(move || MetricsPublisher::new(options, theirs).run(&woken))
            .map_err(|error| Failure::new(Exit::CouldNotCheck, format!("metrics: {error}")))?;
        Ok(Self { shared, wake: Some(wake), thread: Some(thread) })
    }

    /// A stall has begun.
    pub(crate) fn begin(&self, trigger: &Trigger) {
        self.shared.state().stalls.begin(trigger);
        self.wake();
    }

    /// A stall is over.
    pub(crate) fn end(&self, incident: &mw_model::Incident) {
        self.shared.state().stalls.end(incident);
        self.wake();
    }

    pub(crate) fn recorder(&self, recorder: Recorder) {
        self.shared.state().recorder = recorder;
    }

    /// What the cgroups of the services have waited.
    pub(crate) fn waits(&self, waits: Vec<(BlameParty, Vec<GroupWait>)>) {
        self.shared.state().stalls.set_waits(waits);
    }

    fn wake(&self) {
        if let Some(wake) = &self.wake {
            let _ = wake.send(());
        }
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        drop(self.wake.take());
        if let Some(thread) = self.thread.take() {
            // It may wait for a file system that does not respond, and ends by itself.
            mw_sys::join_within(thread, Duration::from_secs(1));
        }
    }
}

impl SharedMetrics {
    fn state(&self) -> MutexGuard<'_, MetricsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HttpService for SharedMetrics {
    /// None before the first look at the machine: the request that started the recorder by its socket finds none.
    fn answer(&self, request: &HttpRequest) -> Option<Response> {
        let response = match &*request.path {
            "/metrics" => {
                let exposition = Exposition::negotiate(&request.accept);
                let state = self.state();
                let body = match exposition {
                    Exposition::Text => &state.text,
                    Exposition::OpenMetrics => &state.open_metrics,
                };
                if body.is_empty() {
                    return None;
                }
                let content_type = exposition.content_type();
                Response { status: 200, content_type, body: Arc::clone(body) }
            }
            "/" => Response::plain(200, "memwright: see /metrics\n"),
            _ => Response::plain(404, "see /metrics\n"),
        };
        Some(response)
    }

    fn tell(&self, line: &str) {
        self.log.error(&format!("metrics: {line}"));
    }
}

/// The thread that looks, and listens as soon as it can.
struct MetricsPublisher {
    options: MetricsOptions,
    shared: Arc<SharedMetrics>,
    look: Option<HelperThread<(), Window>>,
    server: Option<WebServer>,
    /// Last message about an address that cannot be bound.
    trouble: Option<String>,
    machine: MetricsPage,
    calibrated: Option<(Instant, Option<Calibration>)>,
}

impl MetricsPublisher {
    fn new(options: MetricsOptions, shared: Arc<SharedMetrics>) -> Self {
        let look = Source::live().ok().and_then(|source| {
            HelperThread::new(PATIENCE, move |_, ()| mw_collect::window(&source)).ok()
        });
        let machine = MetricsPage::default();
        Self { options, shared, look, server: None, trouble: None, machine, calibrated: None }
    }

    fn run(mut self, woken: &Receiver<()>) {
        let _ = rustix::process::setpriority_process(None, NICE);
        self.check_config();
        let mut next = Instant::now();
        loop {
            if Instant::now() >= next {
                self.listen();
                self.look();
                next = Instant::now() + INTERVAL;
            }
            self.publish();
            match woken.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok(()) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Said at the start; connections say it again once it changes.
    fn check_config(&self) {
        match self.protection() {
            Ok(Protection { secret_files, .. }) => secret_files
                .iter()
                .filter_map(|path| secret_files::exposure(path))
                .for_each(|line| self.warn(&line)),
            Err(why) => {
                let line = format!("{why}; connections are closed until it is corrected");
                self.shared.log.error(&format!("metrics: {line}"));
            }
        }
    }

    fn protection(&self) -> Result<Protection, String> {
        let path = self.options.web_config.as_ref();
        path.map_or_else(|| Ok(Protection::default()), |path| WebConfig::new(path.clone()).check())
    }

    fn warn(&self, line: &str) {
        self.shared.log.warning(&format!("metrics: {line}"));
    }

    fn listen(&mut self) {
        if self.server.is_some() {
            return;
        }
        let config = self.options.web_config.clone().map(WebConfig::new);
        let service = Arc::clone(&self.shared) as Arc<dyn HttpService>;
        let log = self.shared.log;
        let started = listener(&self.options.listen).and_then(|listener| {
            Ok((listener.local_addr()?, WebServer::start(listener, config, service)?))
        });
        match started {
            Ok((address, server)) => {
                log.notice(&format!("metrics on {address}"));
                (self.server, self.trouble) = (Some(server), None);
                let protection = self.protection().ok();
                if let Some(line) = protection.and_then(|with| danger(address, &with)) {
                    self.warn(&line);
                }
            }
            Err(error) => {
                let trouble = format!(
                    "metrics: cannot listen on {}: {error}; retrying every {} s, stop what uses the port or \
                     choose another one with --listen",
                    self.options.listen,
                    INTERVAL.as_secs()
                );
                if self.trouble.as_ref() != Some(&trouble) {
                    log.error(&trouble);
                    self.trouble = Some(trouble);
                }
            }
        }
    }

    /// A look that does not end leaves the metrics of the machine out, rather than old ones in.
    fn look(&mut self) {
        let window = self.look.as_mut().and_then(|look| look.run(&[(0, ())]).pop().flatten());
        let Some(window) = window else {
            self.machine = MetricsPage::default();
            mw_metrics::with_build(&mut self.machine, env!("CARGO_PKG_VERSION"));
            mw_metrics::unseen(&mut self.machine);
            return;
        };
        let mut report = mw_rules::check(&window, None);
        report.exhaustion = crate::command::forecast(self.options.recording.clone(), None);
        let mut page = mw_metrics::machine(&window, &report);
        mw_metrics::with_build(&mut page, env!("CARGO_PKG_VERSION"));
        self.speed(&window, &mut page);
        pools(&self.options.pools, &mut page);
        self.machine = page;
    }

    /// Speed of allocation, measured now and then.
    fn speed(&mut self, window: &Window, page: &mut MetricsPage) {
        let wanted =
            Wanted { size_bytes: CALIBRATED_BYTES, lock: false, page: PageSize::Base, node: None };
        if self.calibrated.as_ref().is_none_or(|(at, _)| at.elapsed() >= CALIBRATION_INTERVAL) {
            let calibration = mw_collect::calibrate::calibrate(&wanted, &window.now).ok();
            self.calibrated = Some((Instant::now(), calibration));
        }
        let Some((_, Some(calibration))) = &self.calibrated else { return };
        let window = mw_metrics::as_unlimited(window);
        if let Ok(mut assessment) = preflight::assess(&window, &wanted) {
            preflight::add_time(&mut assessment, &window, calibration);
            mw_metrics::with_preflight(page, &wanted, assessment.time.as_ref());
        }
    }

    fn publish(&self) {
        let mut page = self.machine.clone();
        let mut state = self.shared.state();
        let Recorder { is_recording, sample_age_ms } = state.recorder;
        let sampled_unix_ms = mw_sys::unix_ms().saturating_sub(sample_age_ms);
        mw_metrics::with_recorder(&mut page, is_recording, sampled_unix_ms);
        state.stalls.write(&mut page);
        state.text = page.write(Exposition::Text).into();
        state.open_metrics = page.write(Exposition::OpenMetrics).into();
    }
}

/// Secrets that others can read on the way, or in their files.
fn danger(address: SocketAddr, protection: &Protection) -> Option<String> {
    let Protection { has_tls, has_passwords, .. } = protection;
    if address.ip().to_canonical().is_loopback() {
        return None;
    }
    match (has_tls, has_passwords) {
        (false, false) => Some(format!(
            "everybody who reaches {address} can read them; add TLS or a password with --web.config.file"
        )),
        (false, true) => Some(format!(
            "passwords are sent to {address} without TLS, readable on the way; add tls_server_config to the file of \
             --web.config.file"
        )),
        (true, _) => None,
    }
}

/// The socket that systemd passed, which it passes once: it stays open when a reload closes the listener.
static PASSED: OnceLock<Option<TcpListener>> = OnceLock::new();

fn listener(listen: &Listen) -> std::io::Result<TcpListener> {
    let address: SocketAddr = match listen {
        Listen::Address(address) => *address,
        Listen::Systemd => {
            let take = || ListenFd::from_env().take_tcp_listener(0).ok().flatten();
            let none = || std::io::Error::other("systemd passed no socket (see memwright.socket)");
            return PASSED.get_or_init(take).as_ref().ok_or_else(none)?.try_clone();
        }
    };
    TcpListener::bind(address)
}

fn pools(socket: &std::path::Path, page: &mut MetricsPage) {
    // Most machines have no pools.
    if !socket.exists() {
        return;
    }
    for pool in mw_pool::Client::new(socket).pools().unwrap_or_default() {
        let bytes = pool.bytes;
        let states = [
            ("ready", bytes.ready),
            ("leased", bytes.leased),
            ("draining", bytes.draining),
            ("scrubbing", bytes.zeroing),
            ("kept", bytes.kept),
            ("missing", bytes.missing),
        ];
        mw_metrics::with_pool(page, pool.spec.name.as_ref(), &states);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise (Metrics): A request waits for the first look at the machine, 5 s at most.
    #[test]
    fn a_request_before_the_first_page_is_asked_again() {
        let shared = SharedMetrics { state: Mutex::default(), log: JournalLog::to_stderr() };
        let mut request = HttpRequest::default();
        request.path = "/metrics".to_owned();
        assert!(shared.answer(&request).is_none());
        shared.state().text = "page".into();
        assert_eq!(shared.answer(&request).map(|answer| answer.body), Some("page".into()));
    }

    #[test]
    fn what_others_can_read_is_told() {
        let told = |address: &str, has_tls, has_passwords| {
            let protection = Protection { has_tls, has_passwords, secret_files: Vec::new() };
            address.parse().ok().and_then(|address| danger(address, &protection))
        };
        let open = told("192.0.2.1:9818", false, false);
        assert!(open.is_some_and(|line| line.starts_with("everybody who reaches 192.0.2.1:9818")));
        let plain = told("[::]:9818", false, true);
        assert!(plain.is_some_and(|line| line.contains("without TLS")));
        for (address, tls, passwords) in [
            ("192.0.2.1:9818", true, true),
            ("192.0.2.1:9818", true, false),
            ("127.0.0.1:9818", false, true),
            ("[::1]:9818", false, false),
            ("[::ffff:127.0.0.1]:9818", false, false),
        ] {
            assert_eq!(told(address, tls, passwords), None, "{address}");
        }
    }
}
