//! The file format of pprof: a compressed message of protocol buffers, `perftools.profiles.Profile`. The
//! messages are those of pprof's profile.proto, with the fields that are written here.

use flate2::Compression;
use flate2::write::GzEncoder;
use mw_model::Profile;
use prost::Message as _;
use std::collections::HashMap;
use std::io::{self, Write};

/// The profile; `started_unix_ms` is when it began. A stack's values are its samples, and the
/// CPU time that they represent.
///
/// # Errors
/// There is no memory for it.
pub fn render(profile: &Profile, started_unix_ms: u64) -> io::Result<Vec<u8>> {
    let mut out = GzEncoder::new(Vec::new(), Compression::default());
    out.write_all(&message(profile, started_unix_ms).encode_to_vec())?;
    out.finish()
}

fn message(profile: &Profile, started_unix_ms: u64) -> PprofProfile {
    let period_ns = 1_000_000_000 / u64::from(profile.hz.max(1));
    let mut strings = Strings::new();
    let mut locations = Strings::new();
    let count = ValueType { kind: strings.place("samples"), unit: strings.place("count") };
    let time = ValueType { kind: strings.place("cpu"), unit: strings.place("nanoseconds") };
    let pid = strings.place("pid");
    let mut samples = Vec::new();
    for stack in &profile.stacks {
        let task = format!("task {}", stack.task);
        let names = [task.as_str()].into_iter().chain(profile.names(stack));
        let mut location_id: Vec<u64> =
            names.map(|name| locations.place(name).unsigned_abs()).collect();
        // The innermost comes first.
        location_id.reverse();
        let value = vec![signed(stack.samples), signed(stack.samples.saturating_mul(period_ns))];
        let label = vec![PprofLabel { key: pid, num: stack.pid.into() }];
        samples.push(PprofSample { location_id, value, label });
    }
    // Each location is one function, which has the same number.
    let ids = 1..locations.list.len() as u64;
    let location = |id| PprofLocation { id, line: vec![PprofLine { function_id: id }] };
    let names = locations.list.iter().skip(1).map(|name| strings.place(name));
    let functions: Vec<PprofFunction> = ids
        .clone()
        .zip(names)
        .map(|(id, name)| PprofFunction { id, name, system_name: name })
        .collect();
    PprofProfile {
        sample_type: vec![count, time.clone()],
        sample: samples,
        location: ids.map(location).collect(),
        function: functions,
        string_table: strings.list,
        time_nanos: signed(started_unix_ms.saturating_mul(1_000_000)),
        duration_nanos: signed(profile.span_ms.saturating_mul(1_000_000)),
        period_type: Some(time),
        period: signed(period_ns),
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[derive(Clone, PartialEq, prost::Message)]
struct PprofProfile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<PprofSample>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<PprofLocation>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<PprofFunction>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct PprofSample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<PprofLabel>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct PprofLabel {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "3")]
    num: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct PprofLocation {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<PprofLine>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct PprofLine {
    #[prost(uint64, tag = "1")]
    function_id: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct PprofFunction {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
}

/// Texts, each once; the first is empty, as the format wants it.
struct Strings {
    list: Vec<String>,
    places: HashMap<String, i64>,
}

impl Strings {
    fn new() -> Self {
        Self { list: vec![String::new()], places: HashMap::from([(String::new(), 0)]) }
    }

    fn place(&mut self, text: &str) -> i64 {
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        let place = self.list.len() as i64;
        self.list.push(text.to_owned());
        self.places.insert(text.to_owned(), place);
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    impl PprofProfile {
        fn text(&self, at: i64) -> &str {
            &self.string_table[usize::try_from(at).unwrap()]
        }

        fn function(&self, location: u64) -> &str {
            let location = self.location.iter().find(|known| known.id == location).unwrap();
            let id = location.line[0].function_id;
            self.text(self.function.iter().find(|known| known.id == id).unwrap().name)
        }
    }

    #[test]
    fn it_is_read_back_with_every_stack_and_label() {
        let packed = super::render(&crate::profile::example(), 1_700_000_000_000).unwrap();
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut bytes).unwrap();
        let profile = PprofProfile::decode(bytes.as_slice()).unwrap();
        assert_eq!(profile.string_table[0], "");
        let types: Vec<_> = profile
            .sample_type
            .iter()
            .map(|t| (profile.text(t.kind), profile.text(t.unit)))
            .collect();
        assert_eq!(types, [("samples", "count"), ("cpu", "nanoseconds")]);
        assert_eq!(profile.period_type.as_ref(), profile.sample_type.last());
        assert_eq!(profile.period, 1_001_001);
        assert_eq!(profile.time_nanos, 1_700_000_000_000_000_000);
        assert_eq!(profile.duration_nanos, 5_000_000_000);
        let stacks: Vec<Vec<&str>> = profile
            .sample
            .iter()
            .map(|s| s.location_id.iter().map(|id| profile.function(*id)).collect())
            .collect();
        assert_eq!(
            stacks[0],
            ["compaction_alloc", "__alloc_pages", "do_syscall_64", "task mysqld"]
        );
        assert_eq!(stacks[2], ["[unknown]", "task x"]);
        assert_eq!(profile.sample[0].value, [40, 40 * 1_001_001]);
        let label = &profile.sample[0].label[0];
        assert_eq!((profile.text(label.key), label.num), ("pid", 7));
    }
}
