//! Another user puts links, FIFOs, devices, names of foreign files and files without end where memwright reads and
//! writes as root.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use mw_sys::guarded::{self, FileReader, OutputTarget, ReadLimits};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Gid, Uid};
use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The user who attacks, and another one.
const MALLORY: u32 = 65_534;
const ALICE: u32 = 54_321;

const SECRET: &str = "root's own";

const LIMITS: ReadLimits = ReadLimits { bytes: 64 << 10, time: Duration::from_secs(5) };

/// A directory like /tmp, one of Mallory's, and a secret of root's.
struct Place {
    top: TempDir,
}

impl Place {
    fn new() -> Self {
        let top = tempfile::Builder::new().permissions(Permissions::from_mode(0o755)).tempdir();
        let place = Self { top: top.unwrap() };
        for (name, mode, owner) in [
            ("sticky", 0o1777, 0),
            ("open", 0o777, 0),
            ("mallory", 0o755, MALLORY),
            ("root", 0o755, 0),
        ] {
            fs::create_dir(place.at(name)).unwrap();
            chown(place.at(name), Some(owner), Some(owner)).unwrap();
            fs::set_permissions(place.at(name), Permissions::from_mode(mode)).unwrap();
        }
        fs::write(place.secret(), SECRET).unwrap();
        fs::set_permissions(place.secret(), Permissions::from_mode(0o600)).unwrap();
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.top.path().join(name)
    }

    fn secret(&self) -> PathBuf {
        self.at("root/secret")
    }

    fn link(&self, name: &str, target: impl AsRef<Path>, owner: u32) -> PathBuf {
        symlink(target, self.at(name)).unwrap();
        lchown(self.at(name), Some(owner), Some(owner)).unwrap();
        self.at(name)
    }

    fn file(&self, name: &str, owner: u32) -> PathBuf {
        fs::write(self.at(name), "former").unwrap();
        chown(self.at(name), Some(owner), Some(owner)).unwrap();
        self.at(name)
    }

    fn fifo(&self, name: &str, owner: u32) -> PathBuf {
        mknodat(CWD, self.at(name), FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
        chown(self.at(name), Some(owner), Some(owner)).unwrap();
        self.at(name)
    }
}

/// As every writer does.
fn write(path: &Path) -> io::Result<()> {
    match guarded::output(path)? {
        OutputTarget::Special(mut file) => file.write_all(b"new"),
        OutputTarget::File(place) => {
            let mut new = place.create(0o600)?;
            new.file().write_all(b"new")?;
            new.persist()
        }
    }
}

fn refused(error: &io::Error) -> String {
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    error.to_string()
}

/// Runs with each combination of the kernel's own protections, and restores them.
fn with_protections(test: impl Fn(&str)) {
    const NAMES: [&str; 4] = ["symlinks", "hardlinks", "fifos", "regular"];
    let _alone = mw_test::alone();
    let path = |name: &str| format!("/proc/sys/fs/protected_{name}");
    let before = NAMES.map(|name| fs::read_to_string(path(name)).unwrap());
    let set = |values: [&str; 4]| {
        let mut all = NAMES.iter().zip(values);
        all.try_for_each(|(name, value)| fs::write(path(name), value))
    };
    if let Err(error) = set(before.each_ref().map(String::as_str)) {
        test("as they are");
        return mw_test::skip(format!("the protections of links cannot be set: {error}"));
    }
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        for values in [["0"; 4], ["1"; 4], ["1", "1", "2", "2"]] {
            set(values).unwrap();
            test(&values.concat());
        }
    }));
    set(before.each_ref().map(String::as_str)).unwrap();
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
}

/// Does something in a thread of another user.
fn as_user<T: Send>(user: u32, act: impl FnOnce() -> T + Send) -> T {
    let act = || {
        let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
        rustix::thread::set_thread_groups(&[]).unwrap();
        rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
        rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
        act()
    };
    std::thread::scope(|scope| scope.spawn(act).join().unwrap())
}

/// Promise (The recorder): What a command writes goes through no link of another user and into no FIFO or file of
/// theirs, whatever fs.protected_* is set to.
#[test]
fn links_of_others_lead_no_writer_elsewhere() {
    if !mw_test::is_root() {
        return;
    }
    with_protections(|values| {
        let place = Place::new();
        for (name, target) in [
            ("sticky/link", "../root/secret"),
            ("sticky/dangling", "../root/new"),
            ("sticky/dir", "../root"),
            ("open/link", "../root/secret"),
            ("mallory/link", "../root/secret"),
            ("mallory/dir", "../root"),
        ] {
            let link = place.link(name, target, MALLORY);
            let path = if name.ends_with("dir") { link.join("new") } else { link.clone() };
            let said = refused(&write(&path).unwrap_err());
            let expected = format!(
                "{} is a symbolic link of user {MALLORY} and is not followed",
                link.display()
            );
            assert_eq!(said, expected, "{values}");
            assert!(link.is_symlink());
        }
        // A link to a link.
        let second = place.link("root/to-sticky", "../sticky/link", 0);
        refused(&write(&second).unwrap_err());
        assert_eq!(fs::read_to_string(place.secret()).unwrap(), SECRET);
        assert!(!place.at("root/new").exists());
    });
}

#[test]
fn links_of_ones_own_are_followed_where_nobody_else_can_put_them() {
    if !mw_test::is_root() {
        return;
    }
    let place = Place::new();
    for name in ["root/link", "sticky/link"] {
        let link = place.link(name, "../root/made", 0);
        write(&link).unwrap();
        assert_eq!(fs::read_to_string(place.at("root/made")).unwrap(), "new");
        assert!(link.is_symlink());
        fs::remove_file(place.at("root/made")).unwrap();
    }
    let dir = place.link("sticky/dir", "../root", 0);
    write(&dir.join("../root/./made")).unwrap();
    // Anybody may have renamed a link in a directory like these, and linked to it here.
    for name in ["open/link", "mallory/link"] {
        refused(&write(&place.link(name, "../root/made", 0)).unwrap_err());
    }
    fs::hard_link(place.at("root/link"), place.at("sticky/second")).unwrap();
    refused(&write(&place.at("sticky/second")).unwrap_err());
    let circle = place.link("root/circle", "circle", 0);
    assert_eq!(write(&circle).unwrap_err().raw_os_error(), Some(40));
    // Alice relies on root's links and on her own, not on Mallory's.
    let (roots, hers) =
        (place.at("sticky/link"), place.link("sticky/hers", "../sticky/made", ALICE));
    let others = place.link("sticky/others", "made", MALLORY);
    fs::remove_file(place.at("sticky/second")).unwrap();
    as_user(ALICE, || {
        assert_eq!(write(&roots).unwrap_err().kind(), ErrorKind::PermissionDenied, "no permission");
        write(&hers).unwrap();
        refused(&write(&others).unwrap_err());
    });
    assert_eq!(place.at("sticky/made").metadata().unwrap().uid(), ALICE);
}

#[test]
fn fifos_and_files_of_others_receive_nothing() {
    if !mw_test::is_root() {
        return;
    }
    with_protections(|_| {
        let place = Place::new();
        for name in ["sticky/fifo", "mallory/fifo", "open/fifo"] {
            let fifo = place.fifo(name, MALLORY);
            let said = refused(&write(&fifo).unwrap_err());
            assert!(said.contains("a FIFO, socket or device of user 65534"), "{said}");
        }
        let said = refused(&write(&place.file("sticky/file", MALLORY)).unwrap_err());
        assert!(said.contains("is a file of user 65534 and is not replaced"), "{said}");
        // Where the directory is his, the file is his to lose: it is replaced, not written to.
        let file = place.file("mallory/file", MALLORY);
        let mut his = File::open(&file).unwrap();
        write(&file).unwrap();
        assert_eq!(
            (file.metadata().unwrap().uid(), file.metadata().unwrap().mode()),
            (0, 0o100_600)
        );
        assert_eq!(io::read_to_string(&mut his).unwrap(), "former");
        // One's own goes on.
        write(&place.file("sticky/own", 0)).unwrap();
        let fifo = place.fifo("root/fifo", MALLORY);
        let mut end = File::options().read(true).write(true).open(&fifo).unwrap();
        write(&fifo).unwrap();
        let mut bytes = [0; 3];
        end.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"new");
        write(Path::new("/dev/null")).unwrap();
    });
}

#[test]
fn hard_links_are_neither_written_to_nor_read() {
    if !mw_test::is_root() {
        return;
    }
    let place = Place::new();
    for name in ["sticky/hard", "mallory/hard"] {
        fs::hard_link(place.secret(), place.at(name)).unwrap();
        let said = refused(&guarded::read(&place.at(name), 100).unwrap_err());
        assert!(said.contains("a file with several names"), "{said}");
        refused(&guarded::read_tail(&place.at(name), LIMITS).unwrap_err());
        // It gets the name, not the file.
        write(&place.at(name)).unwrap();
        assert_eq!(fs::read_to_string(place.secret()).unwrap(), SECRET);
    }
    let alices = place.file("root/alices", ALICE);
    fs::hard_link(&alices, place.at("mallory/hers")).unwrap();
    refused(&write(&place.at("mallory/hers")).unwrap_err());
}

#[test]
fn names_that_are_exchanged_meanwhile_lead_nowhere_else() {
    if !mw_test::is_root() {
        return;
    }
    let place = Place::new();
    let (ended, path, swapped) =
        (AtomicBool::new(false), place.at("mallory/x"), place.at("mallory/y"));
    fs::create_dir(place.at("mallory/dir")).unwrap();
    chown(place.at("mallory/dir"), Some(MALLORY), Some(MALLORY)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            as_user(MALLORY, || {
                while !ended.load(Ordering::Relaxed) {
                    let _ = symlink("../root/secret", &swapped);
                    let _ = fs::rename(&swapped, &path);
                    let _ = fs::write(&swapped, "his");
                    let _ = fs::rename(&swapped, &path);
                    let _ = fs::rename(place.at("mallory/dir"), &swapped);
                    let _ = symlink("../root", place.at("mallory/dir"));
                    let _ = fs::remove_file(place.at("mallory/dir"));
                    let _ = fs::rename(&swapped, place.at("mallory/dir"));
                }
            });
        });
        for _ in 0..1000 {
            let _ = write(&path);
            let _ = write(&place.at("mallory/dir/secret"));
            if let Ok(read) = guarded::read(&path, 100) {
                assert_ne!(read, SECRET.as_bytes());
            }
        }
        ended.store(true, Ordering::Relaxed);
    });
    assert_eq!(fs::read_to_string(place.secret()).unwrap(), SECRET);
    assert_eq!(fs::read_dir(place.at("root")).unwrap().count(), 1);
}

#[test]
fn open_files_of_a_process_are_written_to_by_whoever_names_them() {
    if !mw_test::is_root() {
        return;
    }
    use std::os::fd::AsRawFd;
    let place = Place::new();
    let file = File::options().read(true).append(true).create(true).open(place.at("root/out"));
    let file = file.unwrap();
    let name = format!("/proc/self/fd/{}", file.as_raw_fd());
    write(Path::new(&name)).unwrap();
    write(&place.link("root/stdout", &name, 0)).unwrap();
    assert_eq!(fs::read_to_string(place.at("root/out")).unwrap(), "newnew");
    refused(&write(&place.link("sticky/stdout", &name, MALLORY)).unwrap_err());
    // Links behind the root of a process are meant for that process.
    let elsewhere = Path::new("/proc/self/root").join(place.top.path().strip_prefix("/").unwrap());
    let link = place.link("root/link", "/etc/hostname", 0);
    refused(&write(&elsewhere.join("root/link")).unwrap_err());
    fs::remove_file(link).unwrap();
    write(&elsewhere.join("root/link")).unwrap();
}

/// Promise (The recorder): A FIFO, a device, a link to a file of somebody else, a file without end or a file system
/// that hangs in place of a configured log delays nothing, and the other logs are read.
#[test]
fn a_reader_gets_what_the_user_who_chose_it_may_read() {
    if !mw_test::is_root() {
        return;
    }
    let place = Place::new();
    let his = place.file("mallory/log", MALLORY);
    fs::create_dir(place.at("root/logs")).unwrap();
    let linked = place.link("mallory/current", "log", MALLORY);
    for path in [&his, &linked, &place.link("root/log", "../mallory/current", 0)] {
        assert_eq!(guarded::read(path, 100).unwrap(), b"former");
        assert_eq!(guarded::read_tail(path, LIMITS).unwrap(), b"former");
    }
    for (name, target) in [
        ("mallory/secret", "../root/secret"),
        ("sticky/secret", "../root/secret"),
        ("mallory/dir", "../root"),
        ("mallory/fd", "/proc/self/fd/0"),
        ("sticky/alices", "../root/alices"),
    ] {
        place.file("root/alices", ALICE);
        let link = place.link(name, target, MALLORY);
        let path = if name.ends_with("dir") { link.join("secret") } else { link };
        let said = refused(&guarded::read(&path, 100).unwrap_err());
        assert!(
            said.contains("is a symbolic link of user 65534") || said.contains("root/"),
            "{said}"
        );
        refused(&guarded::read_tail(&path, LIMITS).unwrap_err());
        refused(&guarded::open_input(&path).unwrap_err());
    }
    assert_eq!(guarded::read(&place.at("root/none"), 100).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(guarded::read(&his, 5).unwrap_err().kind(), ErrorKind::FileTooLarge);
    let open = || guarded::open_dir(&place.at("mallory/dir"));
    refused(&open().unwrap_err());
}

#[test]
fn what_is_no_file_is_not_opened() {
    if !mw_test::is_root() {
        return;
    }
    let place = Place::new();
    let fifo = place.fifo("root/fifo", 0);
    for path in [&fifo, Path::new("/dev/zero"), &place.at("root")] {
        for error in [
            guarded::open(path).unwrap_err(),
            guarded::read(path, 100).unwrap_err(),
            guarded::read_tail(path, LIMITS).unwrap_err(),
        ] {
            assert_eq!(error.to_string(), "not a regular file");
        }
    }
    assert_eq!(guarded::place(&fifo).unwrap_err().kind(), ErrorKind::AlreadyExists);
    // The user named it.
    guarded::open_input(&fifo).unwrap();
    refused(&guarded::open_input(&place.fifo("sticky/fifo", MALLORY)).unwrap_err());
}

#[test]
fn of_a_file_without_end_the_end_is_read() {
    if !mw_test::is_root() {
        return;
    }
    let place = Place::new();
    let mut file = File::create(place.at("root/sparse")).unwrap();
    file.set_len(1 << 40).unwrap();
    io::Seek::seek(&mut file, io::SeekFrom::End(0)).unwrap();
    file.write_all(b"the end").unwrap();
    let begun = Instant::now();
    let tail = guarded::read_tail(&place.at("root/sparse"), LIMITS).unwrap();
    assert_eq!(tail.len() as u64, LIMITS.bytes);
    assert!(tail.ends_with(b"\0the end"));
    let limits = ReadLimits { bytes: u64::MAX, time: Duration::from_millis(200) };
    let mut reader = FileReader::open(&place.at("root/sparse"), limits).unwrap();
    let error = io::copy(&mut reader, &mut io::sink()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_file_system_that_hangs_is_waited_for_once() {
    if !mw_test::is_root() {
        return;
    }
    let place = Place::new();
    mw_test::own_mounts();
    let mount = mw_test::HungMount::at(&place.at("root"));
    let path = place.at("root").join(mw_test::HUNG_FILE);
    // Helper threads have this thread's mounts.
    let mut reader = FileReader::open(&path, LIMITS).unwrap();
    mount.hang();
    let begun = Instant::now();
    assert_eq!(reader.read(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
    let waited = begun.elapsed();
    assert!((Duration::from_secs(1)..Duration::from_secs(8)).contains(&waited), "{waited:?}");
    for _ in 0..100 {
        let error = guarded::read_tail(&path, LIMITS).unwrap_err();
        assert_eq!(error.to_string(), "its file system does not respond");
    }
    assert!(begun.elapsed() - waited < Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[test]
fn what_fails_leaves_the_former_file_and_no_other() {
    if !mw_test::is_root() {
        return;
    }
    let place = Place::new();
    let file = place.file("root/file", 0);
    let OutputTarget::File(to) = guarded::output(&file).unwrap() else { panic!("a file") };
    to.create(0o600).unwrap().file().write_all(b"half").unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "former");
    assert_eq!(fs::read_dir(place.at("root")).unwrap().count(), 2);
    guarded::replace(&file, b"new", 0o640).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "new");
    assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o640);
    // The name itself is replaced, whoever put a link there.
    for (name, owner) in [("root/link", 0), ("mallory/link", MALLORY)] {
        let link = place.link(name, "../root/secret", owner);
        guarded::replace(&link, b"new", 0o640).unwrap();
        assert!(!link.is_symlink());
    }
    refused(&guarded::entry(&place.link("sticky/link", "../root/secret", MALLORY)).unwrap_err());
    assert_eq!(fs::read_to_string(place.secret()).unwrap(), SECRET);
    guarded::place(&place.at("root/empty")).unwrap().make(0o600).unwrap();
    let again = guarded::place(&place.at("root/empty")).unwrap().make(0o600);
    assert_eq!(again.unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(write(&place.at("root")).unwrap_err().kind(), ErrorKind::IsADirectory);
    assert_eq!(write(Path::new("")).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(write(&place.at("none/x")).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(write(&place.at("root/file/x")).unwrap_err().kind(), ErrorKind::NotADirectory);
}

#[test]
fn directories_are_made_where_they_were_meant() {
    if !mw_test::is_root() {
        return;
    }
    let place = Place::new();
    guarded::create_dirs(&place.at("mallory/a/b/c")).unwrap();
    guarded::create_dirs(&place.at("mallory/a/b/c")).unwrap();
    assert!(place.at("mallory/a/b/c").is_dir());
    place.link("mallory/link", "../root", MALLORY);
    refused(&guarded::create_dirs(&place.at("mallory/link/a")).unwrap_err());
    refused(&guarded::create_dirs(&place.at("mallory/link")).unwrap_err());
    assert_eq!(fs::read_dir(place.at("root")).unwrap().count(), 1);
    assert_eq!(guarded::names(&place.at("mallory/a"), 10).unwrap(), ["b"]);
    refused(&guarded::names(&place.at("mallory/link"), 10).unwrap_err());
    guarded::sync_dir(&place.at("mallory/a")).unwrap();
    let file = guarded::create_dirs(&place.secret()).unwrap_err();
    assert_eq!(file.kind(), ErrorKind::NotADirectory);
}
