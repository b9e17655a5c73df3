//! A real browser without a window, and the pictures that it makes.

use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = "/usr/bin/chromium";
/// Seconds after which a browser is no longer waited for.
const LONGEST_S: &str = "90";

/// A page on disk, with a directory for what the browser makes of it.
pub(crate) struct Page {
    dir: tempfile::TempDir,
}

/// The scheme that a user prefers.
#[derive(Clone, Copy)]
pub(crate) enum Scheme {
    Light,
    Dark,
}

/// Lines of a picture of which one is looked at.
const OF_LINES: usize = 4;

/// Every fourth line of a picture, three bytes a point.
pub(crate) struct Picture {
    pub(crate) width: usize,
    points: Vec<[u8; 3]>,
}

impl Page {
    /// Nothing, with a reason on standard error, where there is no browser.
    pub(crate) fn from_html(html: &str) -> Option<Self> {
        if !Path::new(PROGRAM).exists() {
            mw_test::skip(format!("no {PROGRAM}; apt-get install chromium"));
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("page.html"), html).unwrap();
        Some(Self { dir })
    }

    fn run(&self, arguments: &[&str]) -> String {
        let output = Command::new("timeout")
            .args(["--kill-after=5", LONGEST_S, PROGRAM, "--headless=new", "--no-sandbox"])
            .args(["--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage"])
            .args(["--no-first-run", "--disable-background-networking"])
            .args(["--disable-component-update", "--disable-sync", "--disable-extensions"])
            .arg("--in-process-gpu")
            .arg(format!("--user-data-dir={}", self.dir.path().join("user").display()))
            .args(arguments)
            .arg(format!("file://{}", self.dir.path().join("page.html").display()))
            .current_dir(self.dir.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{PROGRAM}: {}: {said}", output.status);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The page's elements after its scripts have run, and what the browser asked of the network.
    pub(crate) fn elements(&self) -> (String, String) {
        let log = self.path("net.json");
        let elements = self.run(&["--dump-dom", &format!("--log-net-log={}", log.display())]);
        (elements, std::fs::read_to_string(log).unwrap())
    }

    /// The page's elements in a window of this width.
    pub(crate) fn elements_at(&self, width: u32) -> String {
        self.run(&["--dump-dom", &format!("--window-size={width},900")])
    }

    pub(crate) fn picture(&self, scheme: Scheme, width: u32, height: u32) -> Picture {
        let scheme = match scheme {
            Scheme::Light => 1,
            Scheme::Dark => 0,
        };
        let file = self.path("page.png");
        self.run(&[
            &format!("--screenshot={}", file.display()),
            &format!("--window-size={width},{height}"),
            &format!("--blink-settings=preferredColorScheme={scheme}"),
        ]);
        Picture::read(&file)
    }

    pub(crate) fn print(&self) -> Vec<u8> {
        let file = self.path("page.pdf");
        self.run(&[&format!("--print-to-pdf={}", file.display()), "--no-pdf-header-footer"]);
        std::fs::read(file).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

impl Picture {
    fn read(file: &Path) -> Self {
        let decoder =
            png::Decoder::new(std::io::BufReader::new(std::fs::File::open(file).unwrap()));
        let mut reader = decoder.read_info().unwrap();
        let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut bytes).unwrap();
        let size = info.color_type.samples();
        assert!(size >= 3, "{:?}", info.color_type);
        let width = info.width as usize;
        let lines = bytes.chunks(size * width).step_by(OF_LINES);
        let point = |point: &[u8]| [point[0], point[1], point[2]];
        let points = lines.flat_map(|line| line.chunks(size).map(point)).collect();
        Self { width, points }
    }

    /// Lines of the picture in which at least so many points have about this colour, such as
    /// `#124e86`.
    pub(crate) fn lines_with(&self, colour: &str, at_least: usize) -> Vec<usize> {
        let wanted = colour_of(colour);
        let is_near = |point: &&[u8; 3]| point.iter().zip(&wanted).all(|(a, b)| a.abs_diff(*b) < 4);
        let lines = self.points.chunks(self.width).enumerate();
        let has = lines.filter(|(_, line)| line.iter().filter(is_near).count() >= at_least);
        has.map(|(number, _)| number * OF_LINES).collect()
    }

    /// How bright it is on average, 0 to 255.
    pub(crate) fn brightness(&self) -> f64 {
        let sum: u64 = self.points.iter().flatten().map(|value| u64::from(*value)).sum();
        sum as f64 / (self.points.len() * 3) as f64
    }
}

fn colour_of(text: &str) -> [u8; 3] {
    [1, 3, 5].map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
}
