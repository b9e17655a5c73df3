//! Environments that are made on this machine, with mounts, namespaces and control groups of their
//! own, which go with them.

use super::answer::{Answer, Expected, Printed, Row, TRIES};
use anyhow::Context;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The limit of the group that environments are put into.
const GROUP: &str = "this cgroup's 256 MiB";

/// Before the scripts: `group` moves the shell to a group of its own with a limit, which is removed at
/// the end.
const BEGIN: &str = r#"
group() {
    if [ -e /sys/fs/cgroup/memory/memory.limit_in_bytes ]; then
        group=/sys/fs/cgroup/memory/memwright-environment limit=memory.limit_in_bytes
    else
        group=/sys/fs/cgroup/memwright-environment limit=memory.max
    fi
    mkdir "$group"
    trap leave EXIT
    echo 256M >"$group/$limit"
}
# The kernel lets go of a group a moment after the last process in it has ended.
leave() {
    for try in $(seq 100); do rmdir "$group" 2>/dev/null && return; sleep 0.1; done
    echo "$group is left" >&2
}
inside() { sh -c 'echo $$ >"$0/cgroup.procs"; exec "$@"' "$group" "$@"; }
"#;

/// An environment of this machine.
struct Host {
    name: &'static str,
    /// A script of sh, run in a mount namespace of its own; `"$@"` is the check.
    script: &'static str,
    expected: Expected,
}

pub(super) fn rows(binary: &Path, is_wanted: &dyn Fn(&str) -> bool) -> anyhow::Result<Vec<Row>> {
    let all = all(&memory_of(Path::new("/proc/meminfo"))?);
    let wanted = all.into_iter().filter(|host| is_wanted(host.name));
    wanted.map(|host| row(binary, host)).collect()
}

fn row(binary: &Path, host: Host) -> anyhow::Result<Row> {
    let mut tried = 1;
    loop {
        // What the kernel has counted since boot may go up at any time, and is true.
        let expected = host.expected.clone().may_find(&counted()?);
        let answer = Answer::ask(|format| run(binary, host.script, format));
        let row = Row::new(host.name, host.script, expected, answer);
        if row.verdict.is_ok() || tried == TRIES {
            return Ok(row);
        }
        tried += 1;
        std::thread::sleep(Duration::from_secs(2));
    }
}

fn run(binary: &Path, script: &str, format: &str) -> anyhow::Result<Printed> {
    let script = format!("{BEGIN}{script}");
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-ec", &script, "sh"])
        .arg(binary)
        .args(["check", "--format", format])
        .stdin(Stdio::null())
        .output()
        .context("unshare")?;
    let error = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(error.is_empty(), "{error}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(Printed { text, code: output.status.code().unwrap_or(-1) })
}

/// `MemTotal` of a meminfo, as `check` writes it.
pub(super) fn memory_of(meminfo: &Path) -> anyhow::Result<String> {
    let text = crate::workspace::read(meminfo)?;
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|total| total.split_whitespace().next()?.parse::<u64>().ok());
    Ok(mw_model::format_bytes(kib.context("no MemTotal in meminfo")? << 10))
}

/// Rules that report what the kernel has counted since boot, where it has counted it.
fn counted() -> anyhow::Result<Vec<String>> {
    let vmstat = crate::workspace::read(Path::new("/proc/vmstat"))?;
    let killed = vmstat
        .lines()
        .any(|line| line.strip_prefix("oom_kill ").is_some_and(|count| count.trim() != "0"));
    Ok(killed.then(|| "oom-kill".to_owned()).into_iter().collect())
}

fn all(memory: &str) -> Vec<Host> {
    let host = |name, script, expected| Host { name, script, expected };
    let healthy = |name, script| host(name, script, Expected::checked(memory));
    let hidden = |name, script, why| host(name, script, Expected::NotChecked(why));
    let group = |name, script| host(name, script, Expected::checked(GROUP));
    vec![
        healthy("this host", r#"exec "$@""#),
        healthy("ordinary user", r#"exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@""#),
        healthy(
            "container of bubblewrap",
            r#"exec bwrap --unshare-all --ro-bind / / --proc /proc --dev /dev "$@""#,
        ),
        healthy(
            "container of unshare: user, pid, mount, cgroup, ipc and net namespaces",
            r#"exec unshare --user --map-root-user --mount --pid --fork --mount-proc --cgroup --ipc --net "$@""#,
        ),
        healthy(
            "masks of docker and podman",
            r#"for file in kcore keys timer_list interrupts; do [ ! -e /proc/$file ] || mount --bind /dev/null /proc/$file; done
for dir in /proc/scsi /proc/acpi /sys/firmware; do [ ! -d $dir ] || mount -t tmpfs -o ro none $dir; done
for dir in /proc/sys /proc/irq /proc/bus; do mount --bind -o ro $dir $dir; done
mount --rbind /sys /sys; mount -o remount,bind,ro /sys
exec "$@""#,
        ),
        healthy(
            "masked /proc: hidepid=2, as an ordinary user",
            r#"mount -t proc -o hidepid=2 proc /proc
exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@""#,
        ),
        healthy("read-only /proc/sys", r#"mount --bind -o ro /proc/sys /proc/sys; exec "$@""#),
        hidden(
            "masked /proc: /dev/null over meminfo",
            r#"mount --bind /dev/null /proc/meminfo; exec "$@""#,
            "mounted over /proc/meminfo and hides it: run outside of the container, or unmount it",
        ),
        hidden(
            "masked /proc: /dev/null over vmstat",
            r#"mount --bind /dev/null /proc/vmstat; exec "$@""#,
            "mounted over /proc/vmstat and hides it",
        ),
        hidden(
            "masked /proc: a tmpfs over /proc/sys",
            r#"mount -t tmpfs none /proc/sys; exec "$@""#,
            "a tmpfs is mounted over /proc/sys and hides it",
        ),
        hidden(
            "masked /proc: a tmpfs over all of it",
            r#"mount -t tmpfs none /proc; exec "$@""#,
            "a tmpfs is mounted over /proc and hides it",
        ),
        hidden(
            "masked /proc: processes alone (subset=pid)",
            r#"mount -t proc -o subset=pid proc /proc; exec "$@""#,
            "subset=pid",
        ),
        hidden(
            "no /proc",
            r#"umount -l /proc; exec "$@""#,
            "/proc is not mounted: mount -t proc proc /proc",
        ),
        hidden(
            "masked /sys: a tmpfs over all of it",
            r#"mount -t tmpfs none /sys; exec "$@""#,
            "a tmpfs is mounted over /sys and hides it: run outside of the container, or with the host's /sys",
        ),
        hidden(
            "no /sys: a container without it",
            r#"exec bwrap --ro-bind / / --tmpfs /sys --proc /proc --dev /dev "$@""#,
            "a tmpfs is mounted over /sys",
        ),
        host(
            "no /sys/fs/cgroup, in a group",
            r#"group; inside unshare --mount sh -c 'umount -l /sys/fs/cgroup; exec "$@"' sh "$@""#,
            Expected::checked(memory)
                .says("a limit on this process could not be determined")
                .without("/sys/fs/cgroup"),
        ),
        group("in a small control group", r#"group; inside "$@""#),
        group(
            "in a small control group, container of bubblewrap",
            r#"group; inside bwrap --unshare-all --ro-bind / / --proc /proc --dev /dev "$@""#,
        ),
        group(
            "in a small control group, with namespaces of its own",
            r#"group; inside unshare --user --map-root-user --mount --pid --fork --mount-proc --cgroup "$@""#,
        ),
        hidden(
            "another machine's meminfo",
            r#"mount -t tmpfs none /mnt; cp /proc/meminfo /mnt; mount --bind /mnt/meminfo /proc/meminfo
exec "$@""#,
            "another file is mounted over /proc/meminfo",
        ),
        host(
            "lxcfs over meminfo, swaps and uptime",
            include_str!("lxcfs.sh"),
            Expected::checked(memory).says("FUSE (lxcfs)"),
        ),
    ]
}
