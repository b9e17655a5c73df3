//! The terminal while it is drawn on: taken over, handed back on every way out (the end, an error,
//! a panic, a signal), and for a while when the program is suspended.

use mw_sys::SignalsBlocked;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::style::ResetColor;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::{Frame, Terminal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook::iterator::{Handle, Signals};
use signal_hook::low_level::{emulate_default_handler, raise};
use std::io::{self, BufWriter, Stdout};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// Time that a signal waits for a screen that is being drawn; a terminal that takes nothing must not
/// keep the program from ending.
const PATIENCE: Duration = Duration::from_millis(300);

/// A whole screen of a large terminal leaves in one write.
const SCREEN_BYTES: usize = 64 << 10;

type CrosstermTerminal = Terminal<CrosstermBackend<BufWriter<Stdout>>>;

/// The terminal that is drawn on.
pub(crate) struct TerminalSession {
    screen: Arc<Mutex<CrosstermTerminal>>,
    signals: Handle,
}

impl TerminalSession {
    /// Takes the terminal over.
    ///
    /// # Errors
    /// It cannot be put into raw mode, or signals cannot be caught.
    pub(crate) fn enter() -> io::Result<Self> {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            hand_back();
            before(panic);
        }));
        let mut signals = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP])?;
        let output = BufWriter::with_capacity(SCREEN_BYTES, io::stdout());
        let screen = Arc::new(Mutex::new(Terminal::new(CrosstermBackend::new(output))?));
        let session = Self { screen: Arc::clone(&screen), signals: signals.handle() };
        take_over()?;
        // The thread that answers signals takes none itself.
        let _blocked = SignalsBlocked::new()?;
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for signal in signals.forever() {
                answer(signal, &screen);
            }
        })?;
        Ok(session)
    }

    /// # Errors
    /// The terminal is gone.
    pub(crate) fn draw(&self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.lock().draw(draw).map(|_| ())
    }

    /// Clears the terminal: the next screen is drawn in full.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(crate) fn clear(&self) -> io::Result<()> {
        clear(&mut self.lock())
    }

    /// Hands the terminal back.
    pub(crate) fn leave(&self) {
        let _drawn = self.lock();
        self.signals.close();
        hand_back();
    }

    fn lock(&self) -> MutexGuard<'_, CrosstermTerminal> {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Suspends the program and all that share its terminal, such as the sudo that started it.
pub(crate) fn suspend() {
    let _ = rustix::process::kill_current_process_group(rustix::process::Signal::TSTP);
}

fn take_over() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen)
}

/// Errors are ignored: nobody is left to report them to.
fn hand_back() {
    let _ = disable_raw_mode();
    let _ = execute!(io::stdout(), ResetColor, LeaveAlternateScreen, Show);
}

/// Hands the terminal back and applies the default action of the signal.
fn answer(signal: i32, screen: &Mutex<CrosstermTerminal>) {
    let mut drawn = wait_for(screen);
    hand_back();
    let _ = emulate_default_handler(signal);
    // Only a program that was stopped comes back here.
    let _ = take_over();
    if let Some(screen) = drawn.as_mut() {
        let _ = clear(screen);
    }
    // Wakes the thread that waits for a key, which redraws the whole screen.
    let _ = raise(SIGWINCH);
}

/// Clears the screen without querying the position of the cursor, as `Terminal::clear` does: the
/// reply would come among the keys, and some terminals send none.
fn clear(screen: &mut CrosstermTerminal) -> io::Result<()> {
    let area = screen.get_frame().area();
    screen.resize(area)
}

fn wait_for(screen: &Mutex<CrosstermTerminal>) -> Option<MutexGuard<'_, CrosstermTerminal>> {
    let started = Instant::now();
    loop {
        match screen.try_lock() {
            Ok(screen) => return Some(screen),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if started.elapsed() > PATIENCE => return None,
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}
