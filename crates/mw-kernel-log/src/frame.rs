//! Lines of a log inside of another format: JSON of Docker and of the journal, an export of the journal, and several lines in one.

use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;

/// Lines that one entry has at most.
const MAX_ENTRY_LINES: usize = 512;

/// Fields of an entry in which programs put the message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct JsonEntry {
    #[serde(rename = "MESSAGE")]
    journal: Option<Value>,
    log: Option<Value>,
    message: Option<Value>,
    msg: Option<Value>,
    #[serde(rename = "textPayload")]
    text_payload: Option<Value>,
    #[serde(rename = "jsonPayload")]
    json_payload: Option<JsonPayload>,
    #[serde(rename = "SYSLOG_IDENTIFIER")]
    identifier: Option<String>,
    #[serde(rename = "_SOURCE_MONOTONIC_TIMESTAMP")]
    monotonic_us: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct JsonPayload {
    #[serde(rename = "MESSAGE")]
    journal: Option<Value>,
    message: Option<Value>,
}

/// Messages of one line of a file.
pub(crate) fn messages(line: &str) -> Vec<Cow<'_, str>> {
    let trimmed = line.trim_start();
    if trimmed.starts_with('{')
        && let Some(text) = of_json(trimmed)
    {
        return text.lines().take(MAX_ENTRY_LINES).map(|line| line.to_owned().into()).collect();
    }
    if let Some(text) = of_pretty_json(trimmed) {
        return vec![text.into()];
    }
    if is_export_field(trimmed) {
        return match trimmed.split_once("MESSAGE=") {
            Some(("", text)) => vec![text.into()],
            _ => Vec::new(),
        };
    }
    // rsyslog writes #012 for a newline.
    line.split("#012").take(MAX_ENTRY_LINES).map(Cow::Borrowed).collect()
}

fn of_json(line: &str) -> Option<String> {
    let entry: JsonEntry = serde_json::from_str(line.trim_end().trim_end_matches(',')).ok()?;
    let payload = entry.json_payload.unwrap_or_default();
    let value = [
        entry.journal,
        entry.log,
        entry.message,
        entry.msg,
        entry.text_payload,
        payload.journal,
        payload.message,
    ];
    let text = value.into_iter().flatten().find_map(|value| text_of(&value))?;
    let stamp = entry.monotonic_us.and_then(|us| us.parse::<u64>().ok()).map(|us| {
        let seconds = us.checked_div(1_000_000).unwrap_or_default();
        format!("[{seconds}.{:06}] ", us.checked_rem(1_000_000).unwrap_or_default())
    });
    // The prefix is what journalctl would print.
    let is_of_program = entry.identifier.as_deref().is_some_and(|name| name != "kernel");
    Some(match (entry.identifier, stamp) {
        (Some(name), _) if is_of_program => format!("Jan 1 00:00:00 host {name}: {text}"),
        (_, Some(stamp)) => format!("{stamp}{text}"),
        _ => text,
    })
}

/// The journal writes a message that is no UTF-8 as numbers.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(bytes) => {
            let bytes = bytes.iter().map(|byte| u8::try_from(byte.as_u64()?).ok());
            Some(String::from_utf8_lossy(&bytes.collect::<Option<Vec<u8>>>()?).into_owned())
        }
        _ => None,
    }
}

/// `"MESSAGE" : "text",` of journalctl -o json-pretty.
fn of_pretty_json(line: &str) -> Option<String> {
    let rest = line.strip_prefix("\"MESSAGE\"")?.trim_start().strip_prefix(':')?;
    serde_json::from_str(rest.trim().trim_end_matches(',')).ok()
}

/// `_HOSTNAME=db1`, `PRIORITY=4`, `MESSAGE=text` of journalctl -o export.
fn is_export_field(line: &str) -> bool {
    let Some((name, _)) = line.split_once('=') else { return false };
    let is_field = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    name.len() >= 4 && name.bytes().all(is_field)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: &[&str]) {
        assert_eq!(messages(line), expected, "{line}");
    }

    #[test]
    fn an_entry_is_its_message() {
        check(r#"{"log":"a kernel: x\n","stream":"stdout","time":"t"}"#, &["a kernel: x"]);
        check(r#"{"MESSAGE":[79,79,77],"_HOSTNAME":"a"}"#, &["OOM"]);
        check(
            r#"{"MESSAGE":"x\ny","_SOURCE_MONOTONIC_TIMESTAMP":"1500000"}"#,
            &["[1.500000] x", "y"],
        );
        check(r#"    "MESSAGE" : "x \"y\"","#, &["x \"y\""]);
        check(
            "MESSAGE=Out of memory: Killed process 7 (a)",
            &["Out of memory: Killed process 7 (a)"],
        );
        check("_HOSTNAME=db", &[]);
        check("Mem-Info:#012active_anon:1", &["Mem-Info:", "active_anon:1"]);
        check("{not json", &["{not json"]);
        check("gfp_mask=0xd0, order=0", &["gfp_mask=0xd0, order=0"]);
    }

    #[test]
    fn the_journals_identifier_is_the_program() {
        let line = r#"{"MESSAGE":"Killed /a","SYSLOG_IDENTIFIER":"systemd-oomd"}"#;
        check(line, &["Jan 1 00:00:00 host systemd-oomd: Killed /a"]);
    }
}
