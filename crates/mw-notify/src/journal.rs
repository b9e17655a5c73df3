//! A message to journald by its native protocol (systemd, JOURNAL_NATIVE_PROTOCOL).

use crate::Notice;
use crate::delivery_error::DeliveryError;
use mw_model::Severity;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

/// Marks the messages of incidents: `journalctl MESSAGE_ID=…`.
pub const MESSAGE_ID: &str = "6f1c5b0e2f0a4d0f9c3e7a51d84b26ce";

pub(crate) fn send(socket: &Path, notice: &Notice, limit: Duration) -> Result<(), DeliveryError> {
    let failed = |error: std::io::Error| {
        DeliveryError::for_now(format!("{}: {error}; does systemd-journald run?", socket.display()))
    };
    let sender = UnixDatagram::unbound().map_err(failed)?;
    sender.set_write_timeout(Some(limit)).map_err(failed)?;
    sender.send_to(&fields(notice), socket).map_err(failed)?;
    Ok(())
}

fn fields(notice: &Notice) -> Vec<u8> {
    let priority = match notice.severity {
        Severity::Critical => "2",
        Severity::Warning => "4",
        Severity::Note => "5",
    };
    let stall_us = (notice.stall_ms * 1000.0) as u64;
    let all = [
        ("MESSAGE", notice.line()),
        ("MESSAGE_ID", MESSAGE_ID.to_owned()),
        ("PRIORITY", priority.to_owned()),
        ("SYSLOG_IDENTIFIER", "memwright".to_owned()),
        ("INCIDENT", notice.incident.to_string()),
        ("CAUSE", notice.cause.clone()),
        ("PROBE", notice.probe.clone()),
        ("STALL_USEC", stall_us.to_string()),
    ];
    let mut bytes = Vec::new();
    for (name, value) in all {
        bytes.extend(name.as_bytes());
        // A value with a line's end has its length in front.
        if value.contains('\n') {
            bytes.push(b'\n');
            bytes.extend((value.len() as u64).to_le_bytes());
        } else {
            bytes.push(b'=');
        }
        bytes.extend(value.as_bytes());
        bytes.push(b'\n');
    }
    bytes
}
