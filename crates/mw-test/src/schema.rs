//! Reports beside their published schemas. Debian's python3-jsonschema compares them: a validator that is compiled with
//! the tests takes half a minute of CPU time.

use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Reads a schema and then reports from standard input, a line each, and prints what does not conform.
const VALIDATOR: &str = "
import json, sys, jsonschema
schema = json.loads(sys.stdin.readline())
kind = jsonschema.validators.validator_for(schema)
kind.check_schema(schema)
for line in sys.stdin:
    for error in kind(schema).iter_errors(json.loads(line)):
        print(f'{error.json_path}: {error.message}')
";

/// Asserts that every report conforms to `docs/schema/NAME.json`.
///
/// # Panics
/// Where one does not, and where python3-jsonschema is not installed.
pub fn assert_schema<'a>(name: &str, reports: impl IntoIterator<Item = &'a Value>) {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema");
    let schema = std::fs::read_to_string(docs.join(format!("{name}.json"))).unwrap();
    let schema: Value = schema.parse().unwrap();
    let mut lines = format!("{schema}\n");
    reports.into_iter().for_each(|report| lines.push_str(&format!("{report}\n")));
    let mut validator = Command::new("/usr/bin/python3")
        .args(["-c", VALIDATOR])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    validator.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = validator.wait_with_output().unwrap();
    assert!(output.status.success(), "python3-jsonschema failed");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{name}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    #[should_panic(expected = "'schema' is a required property")]
    fn a_report_that_does_not_conform_is_named() {
        assert_schema("report-v1", [&json!({})]);
    }
}
