//! Files that fill the page cache have names that a person understands, also on block devices, on overlays in
//! a container, and after they were deleted. Needs root.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use mw_model::FloodShare;
use mw_profile::{Profiler, ProfilerOptions};
use mw_test::{alone, is_root};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

const WRITTEN_BYTES: usize = 16 << 20;
const WRITTEN_PAGES: u64 = (WRITTEN_BYTES / 4096) as u64;

/// A dd that has written and still has its file open, in mounts of its own.
struct Writer(Child);

impl Writer {
    /// `open` is a shell command that opens the file as standard output.
    fn start(open: &str) -> Self {
        let script = format!("{open}; exec dd bs=4k iflag=fullblock status=none");
        let mut unshare = Command::new("unshare");
        unshare.args(["-m", "sh", "-ec", &script]).stdin(Stdio::piped());
        let mut child = unshare.spawn().unwrap();
        // At most what the pipe holds has not been written yet.
        child.stdin.as_mut().unwrap().write_all(&vec![7; WRITTEN_BYTES]).unwrap();
        Self(child)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// A loop device, detached at the end.
struct Loop(String);

impl Loop {
    fn on(image: &Path) -> Self {
        let output = Command::new("losetup").args(["-f", "--show"]).arg(image).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        Self(String::from_utf8(output.stdout).unwrap().trim().to_owned())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.0]).status();
    }
}

/// What is said of the file that `writer` filled.
fn file_of(profiler: &Profiler, writer: &Writer) -> String {
    let flood = profiler.flood();
    let shares = flood.iter().filter(|share| share.pid == writer.0.id());
    let most = shares.max_by_key(|share| share.pages);
    let FloodShare { path, pages, .. } = most.unwrap_or_else(|| panic!("{flood:?}"));
    assert!(*pages >= WRITTEN_PAGES / 2, "{flood:?}");
    path.clone()
}

/// Promise (The recorder): The file has a name on an overlay, on a block device and after it was deleted, and is
/// never waited for.
#[test]
fn files_are_named_wherever_they_are() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    let dir = TempDir::new_in("/var/tmp").unwrap();
    let at = |name: &str| dir.path().join(name);
    for name in ["lower", "upper", "work", "merged"] {
        fs::create_dir(at(name)).unwrap();
    }
    fs::write(at("lower/old"), "from the image").unwrap();
    fs::write(at("image"), vec![0; 2 * WRITTEN_BYTES]).unwrap();
    let device = Loop::on(&at("image"));
    let (profiler, _) =
        Profiler::start(ProfilerOptions { flood_period: 16, ..ProfilerOptions::default() });
    let dir = dir.path().display();
    let check = |open: &str, expected: String| {
        let writer = Writer::start(open);
        assert_eq!(file_of(&profiler, &writer), expected, "{open}");
    };

    check(&format!("exec 1<>{dir}/plain"), format!("{dir}/plain"));

    let mount = format!(
        "mount -t overlay overlay \
         -o lowerdir={dir}/lower,upperdir={dir}/upper,workdir={dir}/work {dir}/merged"
    );
    check(&format!("{mount}; exec 1<>{dir}/merged/new"), format!("{dir}/merged/new"));
    // Opening it to write copies it to the upper layer, where it has another inode.
    check(&format!("{mount}; exec 1<>{dir}/merged/old"), format!("{dir}/merged/old"));
    assert!(fs::metadata(at("upper/old")).unwrap().len() > WRITTEN_BYTES as u64 / 2);

    let deleted = format!("exec 1<>{dir}/deleted; rm {dir}/deleted");
    check(&deleted, format!("{dir}/deleted (deleted)"));

    let name = device.0.trim_start_matches("/dev/");
    let expected = format!("block device {name} ({dir}/image)");
    check(&format!("exec 1<>{}", device.0), expected);
}
