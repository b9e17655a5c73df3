//! `io.stat` and `io.max` (version 2), `blkio.throttle.*` (version 1).

use crate::error::{ParseError, Problem};
use crate::scan::{self, Line};

/// The most devices of one cgroup that are read.
pub const MAX_DEVICES: usize = 1024;

/// A block device by its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BlockDevice {
    pub major: u32,
    pub minor: u32,
}

impl BlockDevice {
    /// `8:16`.
    fn parse(text: &[u8]) -> Option<Self> {
        let (major, minor) = scan::split_once(text, b':')?;
        Some(Self { major: scan::parse_u32(major).ok()?, minor: scan::parse_u32(minor).ok()? })
    }
}

/// Bytes that a cgroup, with those below it, read from and wrote to a device since it was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeviceBytes {
    pub device: BlockDevice,
    pub read_bytes: u64,
    pub written_bytes: u64,
}

/// A limit of a cgroup on a device.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceLimit {
    pub device: BlockDevice,
    /// In the words of `io.max`: `wbps=1048576`; what is unlimited is left out.
    pub limit: String,
}

/// Reads `io.stat` (4.5 and later) into `devices`. Some kernels print devices without counters, on the
/// line of the next device; those are left out.
///
/// # Errors
/// When a line does not begin with a device, a counter is no number, or there are more than
/// [`MAX_DEVICES`]; `devices` is then empty.
pub fn parse_io_stat(text: &[u8], devices: &mut Vec<DeviceBytes>) -> Result<(), ParseError> {
    devices.clear();
    let result = scan::lines(text).try_for_each(|line| {
        let Some(bytes) = io_stat_line(&line)? else { return Ok(()) };
        push(devices, bytes, &line)
    });
    emptied_on_error(result, devices)
}

fn io_stat_line(line: &Line<'_>) -> Result<Option<DeviceBytes>, ParseError> {
    line.whole()?;
    let mut bytes = DeviceBytes::default();
    let (mut has_device, mut has_counter) = (false, false);
    for field in line.fields() {
        if let Some(device) = BlockDevice::parse(field) {
            (bytes.device, has_device) = (device, true);
            continue;
        }
        let (key, value) = line.at(scan::split_once(field, b'=').ok_or(Problem::Expected("=")))?;
        let counter = match key {
            b"rbytes" => &mut bytes.read_bytes,
            b"wbytes" => &mut bytes.written_bytes,
            _ => continue,
        };
        *counter = line.at(scan::parse_u64(value))?;
        has_counter = true;
    }
    if has_counter && !has_device {
        return Err(line.error(Problem::Expected("a device")));
    }
    Ok(has_counter.then_some(bytes))
}

/// Reads `blkio.throttle.io_service_bytes` or its recursive form (version 1) into `devices`.
///
/// # Errors
/// When a line is not `device operation number`, or there are more than [`MAX_DEVICES`]; `devices` is
/// then empty.
pub fn parse_blkio_bytes(text: &[u8], devices: &mut Vec<DeviceBytes>) -> Result<(), ParseError> {
    devices.clear();
    let result = scan::lines(text).try_for_each(|line| {
        line.whole()?;
        let mut fields = line.fields();
        // The last line is the total of all devices.
        let Some(device) = fields.next().and_then(BlockDevice::parse) else { return Ok(()) };
        let operation = fields.next();
        let value = line.next_u64(&mut fields)?;
        if devices.last().is_none_or(|last| last.device != device) {
            push(devices, DeviceBytes { device, ..DeviceBytes::default() }, &line)?;
        }
        match (operation, devices.last_mut()) {
            (Some(b"Read"), Some(last)) => last.read_bytes = value,
            (Some(b"Write"), Some(last)) => last.written_bytes = value,
            _ => {}
        }
        Ok(())
    });
    emptied_on_error(result, devices)
}

fn push(
    devices: &mut Vec<DeviceBytes>,
    bytes: DeviceBytes,
    line: &Line<'_>,
) -> Result<(), ParseError> {
    if devices.len() >= MAX_DEVICES {
        return Err(line.error(Problem::TooMany("devices")));
    }
    devices.push(bytes);
    Ok(())
}

fn emptied_on_error(
    result: Result<(), ParseError>,
    devices: &mut Vec<DeviceBytes>,
) -> Result<(), ParseError> {
    if result.is_err() {
        devices.clear();
    }
    result
}

/// Reads `io.max` (4.5 and later).
///
/// # Errors
/// When a line does not begin with a device, or there are more than [`MAX_DEVICES`].
pub fn parse_io_max(text: &[u8]) -> Result<Vec<DeviceLimit>, ParseError> {
    limits(text, |rest| {
        let is_limit = |field: &&[u8]| !field.ends_with(b"=max");
        let limited: Vec<String> = scan::fields(rest).filter(is_limit).map(scan::lossy).collect();
        limited.join(" ")
    })
}

/// Reads `blkio.throttle.read_bps_device` and its kind (version 1), whose limits are called `name` in
/// `io.max`.
///
/// # Errors
/// As of [`parse_io_max`].
pub fn parse_blkio_limit(text: &[u8], name: &str) -> Result<Vec<DeviceLimit>, ParseError> {
    limits(text, |rest| format!("{name}={}", scan::lossy(rest.trim_ascii())))
}

fn limits(text: &[u8], limit: impl Fn(&[u8]) -> String) -> Result<Vec<DeviceLimit>, ParseError> {
    let mut limits = Vec::new();
    for line in scan::lines(text) {
        line.whole()?;
        let (device, rest) = scan::first_field(line.text);
        let device = line.at(BlockDevice::parse(device).ok_or(Problem::Expected("a device")))?;
        if limits.len() >= MAX_DEVICES {
            return Err(line.error(Problem::TooMany("devices")));
        }
        let limit = limit(rest);
        if !limit.is_empty() {
            limits.push(DeviceLimit { device, limit });
        }
    }
    Ok(limits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(major: u32, minor: u32, read_bytes: u64, written_bytes: u64) -> DeviceBytes {
        DeviceBytes { device: BlockDevice { major, minor }, read_bytes, written_bytes }
    }

    #[test]
    fn io_stat() {
        let text = b"8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=5 dios=6\n253:1 \n\
            7:0 7:1 rbytes=9 wbytes=8 rios=1 wios=1 dbytes=0 dios=0\n";
        let mut devices = vec![bytes(1, 1, 1, 1)];
        parse_io_stat(text, &mut devices).unwrap();
        assert_eq!(devices, [bytes(8, 0, 1, 2), bytes(7, 1, 9, 8)]);
    }

    #[test]
    fn service_bytes_of_version_1() {
        let text = b"8:0 Read 10\n8:0 Write 20\n8:0 Sync 30\n8:0 Async 0\n8:0 Discard 0\n\
            8:0 Total 30\n7:0 Read 1\n7:0 Write 2\n7:0 Total 3\nTotal 33\n";
        let mut devices = Vec::new();
        parse_blkio_bytes(text, &mut devices).unwrap();
        assert_eq!(devices, [bytes(8, 0, 10, 20), bytes(7, 0, 1, 2)]);
        parse_blkio_bytes(b"Total 0\n", &mut devices).unwrap();
        assert!(devices.is_empty());
    }

    #[test]
    fn limits_of_devices() {
        let text = b"8:16 rbps=2097152 wbps=max riops=max wiops=120\n8:0 rbps=max wbps=max\n";
        let device = BlockDevice { major: 8, minor: 16 };
        let limit = "rbps=2097152 wiops=120".to_owned();
        assert_eq!(parse_io_max(text), Ok(vec![DeviceLimit { device, limit }]));
        let limit = "wbps=1048576".to_owned();
        let expected = vec![DeviceLimit { device, limit }];
        assert_eq!(parse_blkio_limit(b"8:16 1048576\n", "wbps"), Ok(expected));
        assert_eq!(parse_io_max(b""), Ok(vec![]));
    }

    #[test]
    fn wrong() {
        let mut devices = vec![bytes(1, 1, 1, 1)];
        let error = parse_io_stat(b"8:0 rbytes=1\n8:1 rbytes=x\n", &mut devices).unwrap_err();
        assert_eq!((error.line, error.problem), (2, Problem::NotANumber));
        assert!(devices.is_empty());
        let error = parse_io_stat(b"rbytes=1\n", &mut devices).unwrap_err();
        assert_eq!(error.problem, Problem::Expected("a device"));
        assert_eq!(parse_io_stat(b"8:0 rb", &mut devices).unwrap_err().problem, Problem::Truncated);
        let error = parse_blkio_bytes(b"8:0 Read\n", &mut devices).unwrap_err();
        assert_eq!(error.problem, Problem::Expected("a number"));
        let many = b"8:0 rbytes=1\n".repeat(MAX_DEVICES + 1);
        let error = parse_io_stat(&many, &mut devices).unwrap_err();
        assert_eq!(error.problem, Problem::TooMany("devices"));
        assert!(parse_io_max(b"x rbps=1\n").is_err());
    }
}
