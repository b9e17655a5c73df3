//! Block devices that are held still: suspended by the device mapper, or in a state in which their driver sends nothing.

use crate::source::Source;
use mw_model::StoppedDevice;

const BLOCK_DEVICES: &str = "/sys/block";

/// The most devices that are looked at.
const MAX_DEVICES: usize = 256;
/// The most devices that are told of, and the most below one of them.
const MAX_STOPPED: usize = 16;

/// States in which a driver sends requests: of SCSI (drivers/scsi/scsi_sysfs.c, `sdev_states`) and of NVMe
/// (drivers/nvme/host/sysfs.c, `nvme_sysfs_show_state()`).
const RUNNING: [&str; 4] = ["running", "live", "created", "new"];

/// Reads the devices that are held still now.
pub fn stopped_devices() -> Vec<StoppedDevice> {
    Source::live().map_or_else(|_| Vec::new(), |source| stopped_in(&source))
}

fn stopped_in(source: &Source) -> Vec<StoppedDevice> {
    let names = names(source, BLOCK_DEVICES, MAX_DEVICES);
    names.into_iter().filter_map(|name| stopped(source, name)).take(MAX_STOPPED).collect()
}

fn stopped(source: &Source, name: String) -> Option<StoppedDevice> {
    let device = format!("{BLOCK_DEVICES}/{name}");
    let text = |file: &str| {
        let text = source.read(&format!("{device}/{file}")).ok()?;
        Some(String::from_utf8_lossy(&text).trim().to_owned())
    };
    let is_suspended = text("dm/suspended").is_some_and(|suspended| suspended == "1");
    let state = match is_suspended {
        true => "suspended".to_owned(),
        false => text("device/state").filter(|state| !RUNNING.contains(&state.as_str()))?,
    };
    let mapped_name = text("dm/name");
    let below = self::names(source, &format!("{device}/slaves"), MAX_STOPPED);
    Some(StoppedDevice { name, mapped_name, state, below })
}

fn names(source: &Source, folder: &str, most: usize) -> Vec<String> {
    let mut names = source.list(folder).unwrap_or_default();
    names.truncate(most);
    names
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_device_that_is_suspended_or_offline_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join("sys/block").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("dm-0/dm/suspended", "1\n");
        write("dm-0/dm/name", "vg-data\n");
        write("dm-0/slaves/sda/x", "");
        write("dm-1/dm/suspended", "0\n");
        write("sda/device/state", "running\n");
        write("nvme0n1/device/state", "live\n");
        write("sdb/device/state", "transport-offline\n");
        write("vda/size", "8\n");
        let mut found = stopped_in(&Source::tree(folder.path()).unwrap());
        found.sort_by(|a, b| a.name.cmp(&b.name));
        let told: Vec<_> = found.iter().map(|d| (d.name.as_str(), d.state.as_str())).collect();
        assert_eq!(told, [("dm-0", "suspended"), ("sdb", "transport-offline")]);
        assert_eq!(found[0].mapped_name.as_deref(), Some("vg-data"));
        assert_eq!(found[0].below, ["sda"]);
    }
}
