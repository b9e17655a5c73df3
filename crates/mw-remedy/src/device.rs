//! Which block device a setting belongs to.
//!
//! The kernel names a device's settings by its number or name (`/sys/class/bdi/8:16`,
//! `/sys/block/sdb`), and after a reboot both may be another disk's. So a change of such a setting
//! is journalled with what identifies the disk itself, is persisted by a udev rule that
//! matches that, and is reverted where the disk is by then.

use crate::kernel::Kernel;
use mw_sys::guarded;
use serde::{Deserialize, Serialize};
use std::io::Read;

const BDI_DIR: &str = "/sys/class/bdi/";
const BLOCK_DIR: &str = "/sys/block/";
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Attributes below `/sys/block/NAME` that identify a disk: device mapper, NVMe, SCSI
/// and ATA, virtio.
const ATTRIBUTES: [&str; 4] = ["dm/uuid", "wwid", "device/wwid", "serial"];

/// Stands for an attribute where a device has none of them: its number is its own for this boot.
const THIS_BOOT: &str = "boot";

const DEVICES_MAX: usize = 4096;
const ATTRIBUTE_BYTES_MAX: u64 = 256;

/// Identity of a block device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceId {
    attribute: String,
    value: String,
}

/// Current path of a setting.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SettingLocation {
    /// In this file of the kernel.
    At(String),
    /// Nowhere: it ended with the boot that it was made in.
    Ended,
    /// Nowhere: its device is not there.
    Missing,
}

/// A setting of a block device: `/sys/class/bdi/8:16/max_ratio`, `/sys/block/sdb/queue/nr_requests`.
struct DeviceSetting<'a> {
    dir: &'static str,
    device: &'a str,
    /// The rest of the path.
    name: &'a str,
}

impl<'a> DeviceSetting<'a> {
    fn parse(path: &'a str) -> Option<Self> {
        [BDI_DIR, BLOCK_DIR].into_iter().find_map(|dir| {
            let (device, name) = path.strip_prefix(dir)?.split_once('/')?;
            Some(Self { dir, device, name })
        })
    }

    /// The same setting of another device.
    fn path_on(&self, kernel: &Kernel, block: &str) -> Option<String> {
        let device = match self.dir {
            BDI_DIR => attribute(kernel, block, "dev")?,
            _ => block.to_owned(),
        };
        Some(format!("{}{device}/{}", self.dir, self.name))
    }

    /// The device's name below `/sys/block`.
    fn block(&self, kernel: &Kernel) -> Option<String> {
        let is_it = |block: &String| match self.dir {
            BDI_DIR => attribute(kernel, block, "dev").as_deref() == Some(self.device),
            _ => block == self.device,
        };
        blocks(kernel).into_iter().find(is_it)
    }
}

/// True if a setting belongs to a block device, so that its path holds for one boot only.
pub(crate) fn is_device_setting(path: &str) -> bool {
    DeviceSetting::parse(path).is_some()
}

/// Identity of the device that a setting belongs to; `None` for other settings.
pub(crate) fn identify(kernel: &Kernel, path: &str) -> Option<DeviceId> {
    let setting = DeviceSetting::parse(path)?;
    let id = setting.block(kernel).and_then(|block| id_of(kernel, &block));
    id.or_else(|| {
        let value = String::from_utf8(kernel.read(BOOT_ID).ok()?).ok()?.trim().to_owned();
        Some(DeviceId { attribute: THIS_BOOT.to_owned(), value })
    })
}

/// Current path of a setting that was changed on this device at this path.
pub(crate) fn locate(kernel: &Kernel, path: &str, device: Option<&DeviceId>) -> SettingLocation {
    let (Some(id), Some(setting)) = (device, DeviceSetting::parse(path)) else {
        return SettingLocation::At(path.to_owned());
    };
    if id.attribute == THIS_BOOT {
        let boot = kernel.read(BOOT_ID).unwrap_or_default();
        let same = String::from_utf8_lossy(&boot).trim() == id.value;
        return if same { SettingLocation::At(path.to_owned()) } else { SettingLocation::Ended };
    }
    let holds =
        |block: &String| attribute(kernel, block, &id.attribute).as_ref() == Some(&id.value);
    let block = blocks(kernel).into_iter().find(holds);
    match block.and_then(|block| setting.path_on(kernel, &block)) {
        Some(path) => SettingLocation::At(path),
        None => SettingLocation::Missing,
    }
}

/// The udev rule that makes a setting on this device, whatever its number is; `None` where nothing
/// identifies the device for longer than a boot.
pub(crate) fn udev_rule(path: &str, value: &str, device: Option<&DeviceId>) -> Option<String> {
    let id = device.filter(|id| id.attribute != THIS_BOOT)?;
    let setting = DeviceSetting::parse(path)?;
    let name = match setting.dir {
        BDI_DIR => format!("bdi/{}", setting.name),
        _ => setting.name.to_owned(),
    };
    let DeviceId { attribute, value: is } = id;
    let plain = [&name, value, is].into_iter().all(is_literal);
    plain.then(|| {
        format!(
            "ACTION!=\"remove\", SUBSYSTEM==\"block\", ENV{{DEVTYPE}}==\"disk\", \
             ATTR{{{attribute}}}==\"{is}\", ATTR{{{name}}}=\"{value}\""
        )
    })
}

/// True if udev takes a text as it is: neither a pattern nor a substitution nor an escape.
fn is_literal(text: &str) -> bool {
    let plain = |c: char| (c.is_ascii_graphic() || c == ' ') && !"\"\\*?[]|$%".contains(c);
    !text.is_empty() && text.chars().all(plain)
}

/// The first attribute that a device has and that no other device has the same of, such as another
/// path to the same disk.
fn id_of(kernel: &Kernel, block: &str) -> Option<DeviceId> {
    let blocks = blocks(kernel);
    ATTRIBUTES.into_iter().find_map(|name| {
        let value = attribute(kernel, block, name)?;
        let same = |other: &&String| attribute(kernel, other, name).as_ref() == Some(&value);
        let unique = blocks.iter().filter(same).count() == 1;
        unique.then(|| DeviceId { attribute: name.to_owned(), value })
    })
}

fn blocks(kernel: &Kernel) -> Vec<String> {
    let names = guarded::names(&kernel.resolve(BLOCK_DIR), DEVICES_MAX).unwrap_or_default();
    names.into_iter().filter_map(|name| name.into_string().ok()).collect()
}

/// One line of text, or nothing.
fn attribute(kernel: &Kernel, block: &str, name: &str) -> Option<String> {
    let file = guarded::open(&kernel.resolve(&format!("{BLOCK_DIR}{block}/{name}"))).ok()?;
    let mut text = String::new();
    file.take(ATTRIBUTE_BYTES_MAX).read_to_string(&mut text).ok()?;
    let text = text.trim_end().to_owned();
    (!text.is_empty()).then_some(text)
}
