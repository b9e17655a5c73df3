//! Text archives: what is written is read back, and what somebody else wrote may be hostile.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use mw_collect::MemoryTree;
use mw_collect::input;
use mw_collect::text_archive::TextArchive;
use std::fs;
use std::path::Path;

fn tree(files: &[(&str, &str)]) -> MemoryTree {
    let mut tree = MemoryTree::default();
    for (path, text) in files {
        tree.insert(path, text.as_bytes().to_vec()).unwrap();
    }
    tree
}

fn write(path: &Path, archive: &TextArchive) {
    fs::write(path, archive.to_text().unwrap()).unwrap();
}

#[test]
fn every_fixture_is_read_and_written_as_it_is() {
    let fixtures = mw_test::fixtures();
    assert!(fixtures.len() > 90, "{}", fixtures.len());
    for fixture in fixtures {
        let path = mw_test::fixture(&fixture);
        let archive = TextArchive::load(&path).unwrap();
        assert!(archive.tree.file("expect.txt").is_ok(), "{fixture}");
        assert_eq!(archive.to_text().unwrap(), fs::read_to_string(&path).unwrap(), "{fixture}");
    }
}

/// Promise (Checking): A text archive is read as it was written, and a hostile one is refused.
#[test]
fn any_text_is_read_as_it_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.txt");
    let odd =
        ["", "\n", "x", "x\n\n", "\n\nx", "-- a --\n", "-- a --", "\\", "\\\\\n-- \n", " \t\n"];
    let ends = ["\\ No newline at end of file", "\\ No newline at end of file\n", "base x\n"];
    for text in odd.into_iter().chain(ends) {
        let tree = tree(&[("proc/a", text), ("proc/a --", "b\n"), ("proc/z", text)]);
        let archive = TextArchive { tree, base: None };
        write(&file, &archive);
        assert_eq!(TextArchive::load(&file).unwrap(), archive, "{text:?}");
    }
    for text in ["a\r\n", "\u{1b}[2J", "\0"] {
        assert!(TextArchive { tree: tree(&[("a", text)]), base: None }.to_text().is_err());
    }
    let mut binary = MemoryTree::default();
    binary.insert("a", vec![0xff]).unwrap();
    assert!(TextArchive { tree: binary, base: None }.to_text().is_err());
}

#[test]
fn what_is_equal_to_the_base_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let base = tree(&[("expect.txt", ""), ("proc/a", "1\n"), ("proc/b", "1\n"), ("proc/c", "")]);
    write(&dir.path().join("quiet.txt"), &TextArchive { tree: base.clone(), base: None });
    let tree = tree(&[("expect.txt", ""), ("proc/a", "1\n"), ("proc/b", "2"), ("sys/d", "")]);
    let archive = TextArchive { tree, base: Some(("quiet.txt".to_owned(), base)) };
    let text = "memwright text archive 1\nbase quiet.txt\nabsent proc/c\n-- expect.txt --\n\
                -- proc/b --\n2\n\\ No newline at end of file\n-- sys/d --\n";
    assert_eq!(archive.to_text().unwrap(), text);
    let file = dir.path().join("firing.txt");
    write(&file, &archive);
    assert_eq!(TextArchive::load(&file).unwrap(), archive);
    let source = input::open(&file).unwrap();
    assert_eq!(source.read("/proc/a").unwrap(), b"1\n");
    assert!(source.read("/proc/c").is_err());
    // The base is looked for beside the name that was given.
    let other = tempfile::tempdir().unwrap();
    let link = other.path().join("link");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    assert!(TextArchive::load(&link).unwrap_err().to_string().contains("is based on it"));
}

/// The error of an archive with these lines after the first one.
fn refused(dir: &Path, lines: &str) -> String {
    let file = dir.join("hostile.txt");
    fs::write(&file, format!("memwright text archive 1\n{lines}")).unwrap();
    input::open(&file).unwrap_err().to_string()
}

#[test]
fn a_hostile_archive_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (lines, problem) in [
        ("-- ../proc/a --\n", "line 2: a path that leads out of the tree"),
        ("-- proc/../../a --\n", "line 2: a path that leads out of the tree"),
        ("-- /proc/a --\n", "line 2: a path that leads out of the tree"),
        ("--  --\n", "no name"),
        ("-- proc/a\n", "line 2: no ' --' at the end"),
        ("-- proc/a --\nx", "line 3: an incomplete line"),
        ("-- proc/a --\n\\ No newline at end of file\n", "line 3: a file without a line"),
        ("-- proc/a --\nx\n\\ No newline at end of file\nx\n", "line 5: a line after the end"),
        ("-- proc --\n-- proc/a --\n", "proc: a file and a directory"),
        ("-- etc/a --\n", "neither proc/ nor sys/ in it"),
        ("exec x\n-- proc/a --\n", "line 2: unknown"),
        ("absent proc/a\n", "proc/a: absent from the base as well"),
        ("base none.txt\n", "none.txt: No such file"),
    ] {
        let error = refused(dir.path(), lines);
        assert!(error.contains(problem), "{lines:?}: {error}");
    }
    let many: String = (0..=20_000).map(|n| format!("-- proc/{n} --\n")).collect();
    assert!(refused(dir.path(), &many).contains("too many files"));
    let large = format!("-- proc/a --\n{}", "x\n".repeat((2 << 20) + 1));
    assert!(refused(dir.path(), &large).contains("a file that is too large"));
    let endless = format!("-- proc/a --\n{}\n", "x".repeat(17 << 20));
    assert!(refused(dir.path(), &endless).contains("larger than 16 MiB"));
}

#[test]
fn a_base_is_an_archive_in_the_same_directory() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["/etc/passwd", "../a.txt", "a/b.txt", "..", ".", "", "a/"] {
        let error = refused(dir.path(), &format!("base {name}\n"));
        assert!(error.contains("line 2: a base that is no name of a file"), "{name}: {error}");
    }
    let put = |text: &str| fs::write(dir.path().join("base.txt"), text).unwrap();
    put("root:secret:0:0\n");
    let error = refused(dir.path(), "base base.txt\n");
    assert!(error.ends_with("base.txt: no text archive of memwright"), "{error}");
    put("memwright text archive 1\nbase base.txt\n");
    assert!(refused(dir.path(), "base base.txt\n").ends_with("base.txt: a base with a base"));
    fs::remove_file(dir.path().join("base.txt")).unwrap();
    let (cwd, kind) = (rustix::fs::CWD, rustix::fs::FileType::Fifo);
    rustix::fs::mknodat(cwd, dir.path().join("base.txt"), kind, 0o644.into(), 0).unwrap();
    assert!(refused(dir.path(), "base base.txt\n").contains("base.txt: not a regular file"));
}
