//! What every boot has in common, in a guest and on the host: its scripts, its settings, and where its logs go.

use super::boot::{Boot, TrialHost, TrialService};
use super::images::{self, Images};
use super::play::{Injection, Play};
use super::played::LIMIT_MS;
use mw_lab::Lab;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

pub(super) struct TrialStage {
    pub(super) lab: Lab,
    pub(super) images: Images,
    pub(super) memwright: PathBuf,
    /// The files of lab/trials, as they were at the start.
    scripts: Vec<(OsString, Vec<u8>)>,
    /// For the logs of boots.
    logs: PathBuf,
}

impl TrialStage {
    pub(super) fn new(memwright: &Path, logs: PathBuf) -> anyhow::Result<Self> {
        let mut scripts = Vec::new();
        for entry in crate::workspace::root().join("lab/trials").read_dir()? {
            let entry = entry?;
            scripts.push((entry.file_name(), fs::read(entry.path())?));
        }
        let (lab, images) = (Lab::new(memwright)?, images::prepare(memwright)?);
        Ok(Self { lab, images, memwright: memwright.to_path_buf(), scripts, logs })
    }

    /// An empty directory for the logs of a boot.
    pub(super) fn logs(&self, boot: &Boot, first: &Play) -> anyhow::Result<PathBuf> {
        let kept = self.logs.join(format!("{}-{}-{}", boot.kernel, first.seed, first.index));
        if kept.exists() {
            fs::remove_dir_all(&kept)?;
        }
        fs::create_dir_all(&kept)?;
        Ok(kept)
    }

    /// Writes the scripts of a boot to `folder`.
    pub(super) fn write(&self, folder: &Path, boot: &Boot, plays: &[Play]) -> anyhow::Result<()> {
        for (name, contents) in &self.scripts {
            fs::write(folder.join(name), contents)?;
        }
        fs::write(folder.join("boot"), self.settings(boot))?;
        for service in &boot.services {
            fs::write(folder.join(format!("request.{}", service.name())), request(boot, *service))?;
        }
        Ok(fs::write(folder.join("plays"), plays.iter().map(line).collect::<String>())?)
    }

    /// The file `boot` of the guest's scripts.
    fn settings(&self, boot: &Boot) -> String {
        let names: Vec<&str> = boot.services.iter().map(|service| service.name()).collect();
        let append = if boot.redis_appends { "yes" } else { "no" };
        let lines = [
            ("SERVICES", names.join(" ")),
            ("SERVICE_UID", self.images.uid.to_string()),
            ("LIMIT", format!("{LIMIT_MS:.0}ms")),
            ("FILE_MIB", boot.file_mib.to_string()),
            ("ANON_MIB", boot.anon_mib.to_string()),
            ("TABLE_MIB", images::TABLE_MIB.to_string()),
            ("APPEND", append.to_owned()),
            // Of the host's disk, a second.
            ("READ_KBPS", boot.read_kbps.to_string()),
            ("WRITE_KBPS", boot.write_kbps.to_string()),
            ("READ_IOPS", read_iops(boot).to_string()),
            ("WRITE_IOPS", (boot.write_kbps / 20).to_string()),
        ];
        lines.iter().map(|(name, value)| format!("{name}='{value}'\n")).collect()
    }
}

/// Request to a service.
fn request(boot: &Boot, service: TrialService) -> String {
    let (rows, all) = (boot.rows, images::ROWS);
    match service {
        TrialService::App | TrialService::Nginx => format!(
            "/work/{}/{}/{}/{}",
            boot.app_reads, boot.app_touches, boot.app_syncs, boot.app_spin_us
        ),
        TrialService::Java => "/work".to_owned(),
        TrialService::Postgres => format!(
            "UPDATE hits SET n = n + 1 WHERE id = 1; SELECT count(pad) FROM big WHERE id IN \
             (SELECT (random() * {all})::int FROM generate_series(1, {rows}))"
        ),
        TrialService::Mysql if boot.mysql_writes => {
            "UPDATE hits SET n = n + 1 WHERE id = 1".to_owned()
        }
        TrialService::Mysql => {
            let rows = rows.min(rows_of_disk(boot));
            format!(
                "SELECT COUNT(b.pad) FROM (SELECT FLOOR(1 + RAND() * {all}) AS x \
                 FROM seq_1_to_{rows}) r JOIN big b ON b.id = r.x"
            )
        }
        TrialService::Redis => {
            let key = format!("'k:' .. math.random({})", boot.anon_mib * 240);
            let write = if boot.redis_appends { " redis.call('incr', 'n')" } else { "" };
            let read = format!("redis.call('getrange', {key}, 0, 0)");
            format!("EVAL \"for i = 1, {rows} do {read} end{write}\" 0")
        }
    }
}

/// Rows of a query of which the disk can serve a dozen a second at half of its speed: MariaDB reads each with a page of its
/// own, past the page cache, and would stall before anything is injected.
fn rows_of_disk(boot: &Boot) -> u64 {
    const PAGE_BYTES: u64 = 16 << 10;
    const QUERIES_A_SECOND: u64 = 12;
    let pages_a_second = match boot.place {
        TrialHost::Guest => boot.read_kbps * 1000 / PAGE_BYTES,
        TrialHost::Host => read_iops(boot),
    };
    pages_a_second / 2 / QUERIES_A_SECOND
}

/// Read operations a second of the host's disk.
fn read_iops(boot: &Boot) -> u64 {
    boot.read_kbps / 40
}

/// The play's line of lab/trials/make.sh.
fn line(play: &Play) -> String {
    let words = |of: &[Injection]| of.iter().map(Injection::word).collect::<Vec<_>>().join(" ");
    let (conditions, decoys) = (words(&play.conditions), words(&play.decoys));
    let (index, service) = (play.index, play.service.name());
    format!("play {index} {service} {} {} {conditions} -- {decoys}\n", play.quiet_s, play.hold_s)
}
