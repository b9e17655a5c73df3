//! Plays of one boot in a virtual machine.

use super::boot::Boot;
use super::play::Play;
use super::stage::TrialStage;
use anyhow::Context;
use mw_lab::vm::guest::GuestRole;
use mw_lab::{Case, GuestKernel};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Boot and start of the services, and each play, at most.
const START_LIMIT_S: u64 = 180;
const PLAY_LIMIT_S: u64 = 60;

/// Returns the kernel's release; the files that the guest sent are in `kept`.
pub(super) fn play(
    stage: &TrialStage,
    boot: &Boot,
    plays: &[Play],
    kept: &Path,
) -> anyhow::Result<String> {
    let dir = tempfile::tempdir()?;
    let folder = dir.path().join("trials");
    fs::create_dir(&folder)?;
    stage.write(&folder, boot, plays)?;
    fs::write(folder.join("case.toml"), case(boot))?;
    let mut variant = Case::read(&folder)?.variants.pop().context("no variant")?;
    variant.machine.disks[0].image = Some(stage.images.system.clone());
    variant.machine.disks[1].image = Some(stage.images.data.clone());
    variant.machine.time_limit =
        Duration::from_secs(START_LIMIT_S + PLAY_LIMIT_S * plays.len() as u64);
    let kernel = GuestKernel::get(&boot.kernel)?;
    let (outcome, run) =
        stage.lab.run(&variant, &kernel, &kernel.release, GuestRole::Play, &mut |_| true);
    let run = run.with_context(|| outcome.outcome.to_string())?;
    fs::write(kept.join("console"), &run.console)?;
    for (file, bytes) in &run.frames.files {
        fs::write(kept.join(file.trim_start_matches("keep/")), bytes)?;
    }
    anyhow::ensure!(run.frames.done, "the guest ended as {:?}", run.ended);
    Ok(kernel.release)
}

fn case(boot: &Boot) -> String {
    let disk = |size: &str, format: &str, read_kbps: u64, write_kbps: u64| {
        let speed = |name, kbps| match kbps {
            0 => String::new(),
            kbps => format!("{name}_bytes_per_s = {}\n", kbps * 1000),
        };
        let (read, write) = (speed("read", read_kbps), speed("write", write_kbps));
        format!("[[machine.disks]]\nsize = '{size}'\nformat = '{format}'\n{read}{write}")
    };
    let disks = [
        disk("640M", "ext4", 0, 0),
        disk("768M", "ext4", boot.read_kbps, boot.write_kbps),
        disk("512M", "swap", boot.swap_kbps, boot.swap_kbps),
        disk("256M", "ext4", 0, boot.write_kbps),
    ];
    format!(
        "description = 'blind trials'\n[machine]\nkernel = '{}'\nmemory = '{}M'\ncgroup = '{}'\n\
         modules = ['dm-mod', 'dm-delay', 'sch_netem', 'inet_diag', 'tcp_diag', 'udp_diag']\n{}[expect]\nno_finding = true\n\
         [variant.trials]\nhow = 'drawn'\n",
        boot.kernel,
        boot.memory_mib,
        boot.cgroup.name(),
        disks.concat()
    )
}
