//! `memwright iotune`: running programs see what is set, it is kept across reboots, and what is wrong
//! harms nobody. All of it with a /run and an /etc of its own: the machine's stay as they are.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

#[path = "common/library.rs"]
mod library;

use library::library;
use mw_test::assert_schema;
use serde_json::Value;
use std::fs;
use std::process::{Command, Output};

/// Common part of the scripts: `program NAME` is a dd that writes what it is fed by `feed`, which
/// waits until it is written.
const BEGIN: &str = r#"
mount -t tmpfs tmpfs /run || exit 77
mount -t tmpfs tmpfs /etc || exit 77
trap 'kill $dd 2>/dev/null || :' EXIT
program() {
    mkfifo fifo && mkdir -p d
    "$MEMWRIGHT" run --library "$LIBRARY" -- dd if=fifo of=d/file bs=64k iflag=fullblock &
    dd=$!
    exec 3>fifo
    fed=0
}
feed() {
    head -c "$1M" /dev/zero >&3
    fed=$((fed + $1 * 1048576))
    for try in $(seq 300); do
        [ "$(stat -c %s d/file)" = $fed ] && return
        sleep 0.1
    done
    echo "dd does not write" && exit 1
}
memwright() { "$MEMWRIGHT" "$@"; }
"#;

/// Output of a script, with mounts and processes of its own; `None` where they are not permitted.
fn play(script: &str) -> Option<Output> {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut command = Command::new("unshare");
    command.args([
        "--mount",
        "--pid",
        "--fork",
        "--mount-proc",
        "sh",
        "-e",
        "-c",
        &format!("{BEGIN}\n{script}"),
    ]);
    command.env("MEMWRIGHT", env!("CARGO_BIN_EXE_memwright")).env("LIBRARY", library());
    let output = command.current_dir(dir.path()).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(77) || error.contains("unshare") {
        mw_test::skip(format!("no mount namespace: {error}"));
        return None;
    }
    assert!(output.status.success(), "{}\n{error}", out(&output));
    Some(output)
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Promise (Under unmodified programs): Running programs apply a setting of `iotune set` at once and count its
/// effect; saved settings apply after a boot.
#[test]
fn a_running_program_sees_what_is_set_and_says_what_it_did() {
    let Some(output) = play(
        "program; feed 8
         memwright iotune show
         memwright iotune set d discovered_direct_iosz=64k
         feed 16
         memwright iotune show d/file
         memwright iotune show --json
         memwright iotune unset d
         feed 8
         exec 3>&-; wait $dd",
    ) else {
        return;
    };
    let text = out(&output);
    assert!(text.starts_with("No path has a setting.\n"), "{text}");
    assert!(text.contains("/d: discovered_direct_iosz=64k, until the next reboot"), "{text}");
    assert!(text.contains("1 running program was notified"), "{text}");
    assert!(text.contains("/d/file goes uncached from 64 KiB on"), "{text}");
    assert_eq!(moved_mib(&text), Some(16.0), "{text}");
    let json = &text[text.find('{').unwrap()..];
    let shown = serde_json::Deserializer::from_str(json).into_iter::<Value>().next();
    assert_eq!(moved_bytes(&shown.unwrap().unwrap()["paths"][0]), 16 << 20, "{text}");
}

/// Bytes that running programs kept out of the page cache or asked to leave it, by the first path; none where
/// something was cached.
fn moved_mib(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.contains("by running programs: "))?;
    let moved = line.split_once("by running programs: ")?.1.strip_suffix(", 0 B cached")?;
    // On a slow disk nothing has been verified yet: `0 B`.
    let mib = moved.split(", ").map(|part| match part.split_once(" MiB") {
        Some((mib, _)) => mib.parse::<f64>().ok(),
        None => part.starts_with("0 B ").then_some(0.0),
    });
    mib.sum()
}

fn moved_bytes(shown: &Value) -> u64 {
    let bytes = |name: &str| shown[name].as_u64().unwrap();
    bytes("uncached_bytes") + bytes("unverified_bytes")
}

/// Promise (Under unmodified programs): `iotune show --json` conforms to its published schema.
#[test]
fn json_is_what_the_schema_says() {
    let Some(output) = play(
        "mkdir -p d e /run/memwright
         memwright iotune set d discovered_direct_iosz=64k >/dev/null
         memwright iotune save >/dev/null
         memwright iotune set e discovered_direct_reads=on >/dev/null
         echo nonsense >>/run/memwright/iotunetab
         program; feed 8
         memwright iotune show --json
         memwright iotune show --json d
         exec 3>&-; wait $dd",
    ) else {
        return;
    };
    let text = out(&output);
    let shown = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
    let shown: Vec<Value> = shown.map(Result::unwrap).collect();
    assert_schema("iotune-v1", &shown);
    let [all, one] = shown.as_slice() else { panic!("{text}") };
    assert_eq!(all["paths"].as_array().unwrap().len(), 2, "{all}");
    assert_eq!(all["wrong_lines"].as_array().unwrap().len(), 1, "{all}");
    assert_eq!(moved_bytes(&one["programs"][0]), 8 << 20, "{one}");
    assert_eq!(one["paths"][0]["source"], "saved", "{one}");
}

#[test]
fn what_is_saved_holds_after_a_boot_and_comments_stay() {
    let Some(output) = play(
        "mkdir -p d 'd/with space' /etc/memwright
         echo '# ours' >/etc/memwright/iotunetab
         memwright iotune set d discovered_direct_iosz=64k
         memwright iotune set 'd/with space' discovered_direct_iosz=off
         memwright iotune save d >/dev/null
         cat /etc/memwright/iotunetab
         memwright iotune save >/dev/null
         rm -r /run/memwright
         memwright iotune show
         program; feed 8
         memwright iotune show d
         exec 3>&-; wait $dd
         stat -c %a /etc/memwright/iotunetab",
    ) else {
        return;
    };
    let text = out(&output);
    assert!(text.contains("# ours\n/") && text.contains("/d discovered_direct_iosz=64k"), "{text}");
    assert_eq!(text.matches("(saved)").count(), 3, "{text}");
    assert!(text.contains("/with\\040space discovered_direct_iosz=off"), "{text}");
    assert!(text.ends_with("644\n"), "{text}");
    assert!(text.contains(" uncached") && text.contains(", 0 B cached"), "{text}");
}

/// Promise (Under unmodified programs): A table that is damaged, replaced or removed while programs run changes
/// nothing for them.
#[test]
fn a_table_that_is_wrong_changes_nothing_for_programs_and_is_said() {
    let Some(output) = play(
        "mkdir -p d /run/memwright
         head -c 100000 /dev/urandom >/run/memwright/iotunetab
         program; feed 8; exec 3>&-; wait $dd
         printf '%s/d discovered_direct_iosz=1k\\nnonsense\\n' \"$PWD\" >/run/memwright/iotunetab
         memwright iotune show
         rm fifo; program; feed 8
         for i in 1 2 3 4 5 6 7 8; do
             memwright iotune set d discovered_direct_iosz=${i}m >/dev/null
             : >/run/memwright/iotunetab
             feed 1
             rm /run/memwright/iotunetab
         done
         memwright iotune show
         exec 3>&-; wait $dd
         cmp -n 16777216 d/file /dev/zero",
    ) else {
        return;
    };
    let text = out(&output);
    assert!(text.contains("line 1: write a size of 4k or more"), "{text}");
    assert!(text.contains("line 2: it has no setting"), "{text}");
    assert!(!text.contains("Running programs"), "{text}");
}

/// Commands of the user "nobody", who holds what it locks until the script ends.
const NOBODY: &str = r#"
nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
hold() {
    rm -f held && mkfifo held
    nobody flock "$1" sh -c 'echo held; exec sleep 600' >held 2>&1 &
    read said <held
    echo "nobody: $1: $said"
}
attempt() {
    status=0
    timeout 10 "$MEMWRIGHT" "$@" 2>&1 || status=$?
    echo "exit $status"
}
"#;

/// Promise (Under unmodified programs): Only root changes the settings of other users' programs; nobody makes root
/// publish a file or blocks `iotune`: its directories, tables and lock belong to root, and no link is followed.
#[test]
fn a_directory_of_another_user_makes_root_publish_nothing() {
    let Some(output) = play(&format!(
        "{NOBODY}
         mkdir -p d /run/memwright
         echo 'root:$6$hash' >secret; chmod 600 secret
         ln -s $PWD/secret /run/memwright/iotunetab
         chown -h 65534 /run/memwright /run/memwright/iotunetab
         attempt iotune set d discovered_direct_iosz=64k
         nobody cat /run/memwright/iotunetab || :
         chown 0 /run/memwright
         attempt iotune set d discovered_direct_iosz=64k
         attempt iotune show
         rm /run/memwright/iotunetab
         touch /run/memwright/iotunetab; chown 65534 /run/memwright/iotunetab
         attempt iotune show
         rm /run/memwright/iotunetab
         chmod 775 /run/memwright
         attempt iotune save
         chmod 755 /run/memwright
         attempt iotune save
         mv /etc/memwright /etc/elsewhere; ln -s elsewhere /etc/memwright
         attempt iotune save"
    )) else {
        return;
    };
    let text = out(&output);
    assert!(!text.contains("hash"), "{text}");
    let refusals: Vec<&str> = text.lines().filter(|line| line.starts_with("memwright: ")).collect();
    let reasons = [
        "/run/memwright: user 65534 owns it",
        "/run/memwright/iotunetab: it is a symbolic link",
        "/run/memwright/iotunetab: it is a symbolic link",
        "/run/memwright/iotunetab: user 65534 owns it",
        "/run/memwright: others may write it (mode 0775)",
        "/etc/memwright: it is a symbolic link",
    ];
    assert_eq!(refusals.len(), reasons.len(), "{text}");
    for (refusal, reason) in refusals.iter().zip(reasons) {
        assert!(refusal.contains(reason), "{reason}: {text}");
    }
    assert_eq!(text.matches("exit 3").count(), reasons.len(), "{text}");
    assert_eq!(text.matches("exit 0").count(), 1, "{text}");
}

#[test]
fn programs_ignore_a_table_of_another_user() {
    let Some(output) = play(
        "mkdir -p d /run/memwright
         echo \"$PWD/d discovered_direct_iosz=64k\" >/run/memwright/iotunetab
         chown 65534 /run/memwright/iotunetab
         program; feed 8
         chown 0 /run/memwright/iotunetab
         memwright iotune show
         exec 3>&-; wait $dd",
    ) else {
        return;
    };
    let text = out(&output);
    assert!(text.contains("/d discovered_direct_iosz=64k"), "{text}");
    assert!(!text.contains("Running programs"), "{text}");
}

#[test]
fn a_lock_of_another_user_stops_nobody() {
    let Some(output) = play(&format!(
        "{NOBODY}
         mkdir -p d
         attempt iotune set d discovered_direct_iosz=64k
         for file in /run/memwright /run/memwright/*; do hold $file; done
         attempt iotune set d discovered_direct_iosz=128k
         stat -c '%n %a %u' /run/memwright/*.lock
         chmod 666 /run/memwright/*.lock
         attempt iotune set d discovered_direct_iosz=256k
         stat -c '%n %a %u' /run/memwright/*.lock"
    )) else {
        return;
    };
    let text = out(&output);
    assert!(text.contains("nobody: /run/memwright: held"), "{text}");
    assert!(text.contains("nobody: /run/memwright/iotunetab: held"), "{text}");
    assert_eq!(text.matches("exit 0").count(), 3, "{text}");
    assert_eq!(text.matches("/run/memwright/iotunetab.lock 600 0").count(), 2, "{text}");
}

/// A library with the name and the page of the real one, whose numbers and name are chosen to harm.
const HOSTILE: &str = r#"
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>
static struct {
    char magic[16];
    unsigned long process, floor, slots[64][4], unverified[64];
} page __attribute__((aligned(4096))) = { "memwright-iotuna" };
__attribute__((constructor)) static void begin(void) {
    unsigned long key = 0xcbf29ce484222325;
    for (const char *c = getenv("KEY_OF"); *c; c++) key = (key ^ (unsigned char)*c) * 0x100000001b3;
    page.process = getpid();
    for (int at = 0; at < 64; at++) {
        page.slots[at][0] = at % 2 ? 0xcbf29ce484222325 : key | 1;
        for (int number = 1; number < 4; number++) page.slots[at][number] = -1ul;
        page.unverified[at] = -1ul;
    }
    prctl(PR_SET_NAME, "\033[2Ja\nb (1)");
    write(1, "ready\n", 6);
}
"#;

/// Promise (Under unmodified programs): `iotune show` prints the values of hostile programs on one line each, and
/// does not fail.
#[test]
fn hostile_numbers_and_names_are_shown_and_do_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    let (source, library) = (dir.path().join("hostile.c"), dir.path().join("hostile.so"));
    fs::write(&source, HOSTILE).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).args([&library, &source]);
    assert!(compiler.status().unwrap().success());
    let Some(output) = play(&format!(
        "{NOBODY}
         mkdir -p d /run/hostile
         memwright iotune set d discovered_direct_iosz=64k
         install {} /run/hostile/libmemwright_preload.so
         mkfifo ready
         export KEY_OF=$PWD/d
         for one in 1 2; do
             nobody env LD_PRELOAD=/run/hostile/libmemwright_preload.so sleep 600 >ready &
             read said <ready
         done
         attempt iotune show
         attempt iotune show --json",
        library.display()
    )) else {
        return;
    };
    let text = out(&output);
    assert_eq!(text.matches("exit 0").count(), 2, "{text}");
    assert!(text.contains("by running programs: 16384.0 PiB uncached"), "{text}");
    assert!(text.contains("  \\u{1b}[2Ja\\u{a}b (1) ("), "{text}");
    assert!(!text.contains('\x1b'), "{text}");
    assert!(text.contains("\"cached_bytes\": 18446744073709551615"), "{text}");
}

/// Has a page like the library's, whose faults a handler of its own leaves unanswered.
const UNRESPONSIVE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int count, char **names) {
    int file = open(names[1], O_RDWR | O_CREAT, 0600), handler = syscall(SYS_userfaultfd, O_CLOEXEC);
    struct uffdio_api api = {.api = UFFD_API};
    if (count != 2 || ftruncate(file, 4096) || ioctl(handler, UFFDIO_API, &api)) return 1;
    void *at = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    struct uffdio_register all = {{(unsigned long)at, 4096}, UFFDIO_REGISTER_MODE_MISSING, 0};
    if (ftruncate(file, 0) || ftruncate(file, 4096) || ioctl(handler, UFFDIO_REGISTER, &all)) return 1;
    write(1, "ready\n", 6);
    for (;;) pause();
}
"#;

#[test]
fn a_program_that_never_responds_delays_nobody_for_long() {
    let dir = tempfile::tempdir().unwrap();
    let (source, program) = (dir.path().join("unresponsive.c"), dir.path().join("unresponsive"));
    fs::write(&source, UNRESPONSIVE).unwrap();
    let mut compiler = Command::new("cc");
    assert!(compiler.arg("-o").args([&program, &source]).status().unwrap().success());
    let Some(output) = play(&format!(
        "mount -t tmpfs tmpfs /dev/shm
         mkdir -p d; mkfifo ready
         {} /dev/shm/libmemwright_preload.so >ready &
         read said <ready
         [ \"$said\" = ready ]
         memwright() {{ timeout -k 1 20 \"$MEMWRIGHT\" \"$@\"; }}
         memwright iotune show
         memwright iotune set d discovered_direct_iosz=64k",
        program.display()
    )) else {
        return;
    };
    let text = out(&output);
    assert!(text.contains("could not be examined"), "{text}");
    assert!(text.contains("1 could not be notified"), "{text}");
}

#[test]
fn what_is_asked_wrongly_is_said_and_changes_nothing() {
    let memwright = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_memwright"));
        let output = command.arg("iotune").args(args).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let before = fs::read(mw_iotune::LIVE).ok();
    for (args, code, why) in [
        (&["set", "/tmp", "discovered_direct_iosz=1k"][..], 2, "4k or more"),
        (&["set", "/tmp", "max_bytes=1"], 2, "write discovered_direct_iosz=SIZE"),
        (&["set", "/nowhere/at/all", "discovered_direct_iosz=64k"], 3, "/nowhere/at/all"),
        (&["set", "/tmp"], 2, "KEY=VALUE"),
        (&["show", "/nowhere/at/all"], 3, "/nowhere/at/all"),
    ] {
        let (exit, said) = memwright(args);
        assert_eq!(exit, Some(code), "{args:?}: {said}");
        assert!(said.contains(why), "{args:?}: {said}");
    }
    assert_eq!(fs::read(mw_iotune::LIVE).ok(), before);
}
