//! Files of other tools: archives for support, and text that somebody pasted.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use mw_collect::text_archive::TextArchive;
use mw_collect::{MemoryTree, input};
use mw_model::Snapshot;
use mw_test::{FuzzLimits, fuzz};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

const LIMITS: FuzzLimits = FuzzLimits { bytes: 512 << 20, cpu: Duration::from_secs(30) };

const ROOT: &str = "sosreport-db7-2026-11-28-abcdefg";

fn read(bytes: &[u8]) -> Result<Snapshot, String> {
    let source = input::read(bytes, Path::new("file")).map_err(|error| error.to_string())?;
    Ok(mw_collect::snapshot(&source))
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let options = lzma_rust2::XzOptions::with_preset(1);
    let mut encoder = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A tar archive: files below their directories, and links.
fn tar(files: &[(String, Vec<u8>)], links: &[(String, &str)]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, bytes) in files {
        let mut head = tar::Header::new_gnu();
        head.set_size(bytes.len() as u64);
        head.set_mode(0o644);
        archive.append_data(&mut head, path, bytes.as_slice()).unwrap();
    }
    for (path, target) in links {
        let mut head = tar::Header::new_gnu();
        head.set_entry_type(tar::EntryType::Symlink);
        head.set_size(0);
        archive.append_link(&mut head, path, target).unwrap();
    }
    archive.into_inner().unwrap()
}

fn healthy() -> MemoryTree {
    TextArchive::load(&mw_test::fixture("healthy/numa-2")).unwrap().tree
}

fn below(root: &str, tree: &MemoryTree) -> Vec<(String, Vec<u8>)> {
    tree.files().map(|(path, bytes)| (format!("{root}/{path}"), bytes.to_vec())).collect()
}

/// Without what names the file.
fn anonymous(mut snapshot: Snapshot) -> String {
    snapshot.origin.root.clear();
    snapshot.origin.input = None;
    snapshot.sample.at_ms = 0.0;
    format!("{snapshot:?}")
}

type Files = Vec<(String, Vec<u8>)>;

type Links = Vec<(&'static str, &'static str)>;

/// As sosreport lays it out: links lead to the files of the process that collects.
fn sosreport(tree: &MemoryTree) -> (Files, Links) {
    let mut files: Vec<_> =
        tree.files().map(|(path, bytes)| (path.to_owned(), bytes.to_vec())).collect();
    for (path, _) in &mut files {
        *path = path.replace("proc/self/", "proc/4711/").replace("proc/mounts", "proc/4711/mounts");
    }
    files.push(("var/log/messages".to_owned(), b"words\n".to_vec()));
    files.push(("proc/4711/smaps".to_owned(), vec![b'x'; 100]));
    let links = vec![
        ("proc/mounts", "self/mounts"),
        ("proc/self", "4711"),
        ("proc/swaps2", "../../../../etc/shadow"),
    ];
    (files, links)
}

/// Promise (Checking): An archive of another tool gives the same as its files in a directory, compressed or not, whatever
/// lies beside them.
#[test]
fn a_sosreport_is_read_as_it_comes() {
    let (mut files, links) = sosreport(&healthy());
    let dir = tempfile::tempdir().unwrap();
    for (path, bytes) in &files {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    for (path, target) in &links {
        std::os::unix::fs::symlink(target, dir.path().join(path)).unwrap();
    }
    let wanted = mw_collect::snapshot(&mw_collect::Source::tree(dir.path()).unwrap());
    assert!(wanted.filesystems.value().is_some_and(|filesystems| !filesystems.is_empty()));
    let wanted = anonymous(wanted);
    for (path, _) in &mut files {
        *path = format!("{ROOT}/{path}");
    }
    let links: Vec<_> =
        links.iter().map(|(path, target)| (format!("{ROOT}/{path}"), *target)).collect();
    let archive = tar(&files, &links);
    for bytes in [archive.clone(), gzip(&archive), xz(&archive)] {
        let snapshot = read(&bytes).unwrap();
        assert_eq!(snapshot.origin.input.as_deref(), Some(&*format!("{ROOT} of an archive")));
        assert_eq!(anonymous(snapshot), wanted);
    }
}

#[test]
fn the_files_of_supportconfig_are_taken_apart() {
    let meminfo = String::from_utf8(healthy().file("proc/meminfo").unwrap().to_vec()).unwrap();
    let memory = format!(
        "#==[ Command ]======================================#\n# /usr/bin/free -k\n  total used free\n\n\
         #==[ Configuration File ]===========================#\n# /proc/meminfo\n{meminfo}\n\
         #==[ Configuration File ]===========================#\n# /etc/motd\nMemTotal: 1 kB\n"
    );
    let env = "#==[ Command ]====#\n# /sbin/sysctl -a\nvm.swappiness = 7\nvm.../x = 1\n\n\
               #==[ Command ]====#\n# /bin/uname -a\nLinux h 5.14.21-1-default #1 SMP x86_64\n";
    let file = |name: &str, text: &str| (format!("scc_h_1/{name}"), text.as_bytes().to_vec());
    let archive = tar(&[file("memory.txt", &memory), file("env.txt", env)], &[]);
    let snapshot = read(&xz(&archive)).unwrap();
    let wanted = mw_proc::meminfo::Meminfo::parse(meminfo.as_bytes()).unwrap();
    assert_eq!(snapshot.sample.meminfo.value(), Some(&wanted));
    assert_eq!(snapshot.sysctl.values.get("vm.swappiness"), Some(&Ok("7".to_owned())));
    assert_eq!(snapshot.origin.kernel.unwrap().to_string(), "5.14.21");
}

/// Promise (Checking): Pasted output is read, and the answer says what it was.
#[test]
fn pastes_are_read_and_named() {
    let meminfo =
        "MemTotal:       1000000 kB\nMemFree:         20000 kB\nMemAvailable:    30000 kB\n";
    let quoted: String = meminfo.lines().map(|line| format!("> {line}\n")).collect();
    let free = "              total  used  free  shared  buff/cache  available\n\
                Mem:         64000  60000  1000  10  3000  2500\nSwap:  0 0 0\n";
    let cases = [
        (meminfo.to_owned(), 1_000_000 << 10, "/proc/meminfo"),
        (quoted, 1_000_000 << 10, "/proc/meminfo"),
        (
            format!("[root@db7 ~]# cat /proc/meminfo\n{meminfo}[root@db7 ~]# "),
            1_000_000 << 10,
            "/proc/meminfo",
        ),
        (format!("```\n$ cat /proc/meminfo\n{meminfo}```\n"), 1_000_000 << 10, "/proc/meminfo"),
        (format!("==> /proc/meminfo <==\n{meminfo}"), 1_000_000 << 10, "/proc/meminfo"),
        (format!("user@db7:~$ free -m\n{free}"), 64_000 << 20, "the output of 'free' in MiB"),
        (free.to_owned(), 64_000 << 20, "the output of 'free' in MiB"),
        (format!("we see\n\n{meminfo}\nand then\n{free}"), 1_000_000 << 10, "/proc/meminfo"),
    ];
    for (text, total, input) in cases {
        for bytes in [text.as_bytes().to_vec(), gzip(text.as_bytes())] {
            let snapshot = read(&bytes).unwrap();
            let memory = snapshot.sample.meminfo.value().unwrap();
            assert_eq!(memory.mem_total_bytes, Some(total), "{text}");
            assert_eq!(snapshot.origin.input.as_deref(), Some(input), "{text}");
        }
    }
}

#[test]
fn what_is_no_machine_or_several_is_refused_with_what_to_do() {
    let says = |bytes: &[u8], want: &str| {
        let error = read(bytes).unwrap_err();
        assert!(error.contains(want), "{error}");
    };
    says(b"", "no file of /proc");
    says(b"hello\n", "no file of /proc");
    says(&tar(&[("a/b.txt".to_owned(), b"c".to_vec())], &[]), "no file of /proc");
    let without_contents = tar(&[("proc/meminfo".to_owned(), Vec::new())], &[]);
    says(
        &without_contents,
        "tar stores files of /proc without their contents; copy them with cp -r first",
    );
    let two: Vec<_> = ["node1", "node2"].iter().flat_map(|root| below(root, &healthy())).collect();
    says(&tar(&two, &[]), "files of several machines, in node1, node2; unpack it");
    let damaged = xz(&tar(&below(ROOT, &healthy()), &[]));
    says(damaged.get(..damaged.len() / 2).unwrap(), "file: ");
}

#[test]
fn damaged_input_is_read_within_limits() {
    let archive = tar(&below(ROOT, &healthy()), &[("s/proc/mounts".to_owned(), "self/mounts")]);
    let text = "$ free -m\n total used free\nMem: 1 2 3\n#==[ Command ]==#\n# /proc/meminfo\nMemTotal: 3 kB\n";
    let kinds = [gzip(&archive), xz(&archive), archive, text.as_bytes().to_vec()];
    fuzz(5, LIMITS, |random| {
        let mut bytes = kinds.get(random.below(kinds.len())).unwrap().clone();
        for _ in 0..=random.below(4) {
            random.damage(&mut bytes);
        }
        if let Ok(source) = input::read(bytes.as_slice(), Path::new("damaged")) {
            drop(mw_rules::check(&mw_collect::window(&source), None));
        }
    });
}
