//! The file format of pprof: a compressed message of protocol buffers, `perftools.profiles.Profile`.
//!
//! Only what is written here is known: varints, and fields of bytes.

use flate2::Compression;
use flate2::write::GzEncoder;
use mw_model::Profile;
use std::collections::HashMap;
use std::io::{self, Write};

/// Fields of `Profile`.
mod field {
    pub(super) const SAMPLE_TYPE: u64 = 1;
    pub(super) const SAMPLE: u64 = 2;
    pub(super) const LOCATION: u64 = 4;
    pub(super) const FUNCTION: u64 = 5;
    pub(super) const STRING: u64 = 6;
    pub(super) const TIME_NANOS: u64 = 9;
    pub(super) const DURATION_NANOS: u64 = 10;
    pub(super) const PERIOD_TYPE: u64 = 11;
    pub(super) const PERIOD: u64 = 12;
}

/// The profile; `started_unix_ms` is when it began. A stack's values are its samples, and the
/// processor time that they stand for.
///
/// # Errors
/// There is no memory for it.
pub fn render(profile: &Profile, started_unix_ms: u64) -> io::Result<Vec<u8>> {
    let mut out = GzEncoder::new(Vec::new(), Compression::default());
    out.write_all(&message(profile, started_unix_ms))?;
    out.finish()
}

fn message(profile: &Profile, started_unix_ms: u64) -> Vec<u8> {
    let period_ns = 1_000_000_000 / u64::from(profile.hz.max(1));
    let mut strings = Strings::new();
    let mut locations = Strings::new();
    let mut out = Vec::new();
    let count = value_type(&mut strings, "samples", "count");
    put_bytes(&mut out, field::SAMPLE_TYPE, &count);
    let time = value_type(&mut strings, "cpu", "nanoseconds");
    put_bytes(&mut out, field::SAMPLE_TYPE, &time);
    let pid = strings.place("pid");
    for stack in &profile.stacks {
        let task = format!("task {}", stack.task);
        let names = [task.as_str()].into_iter().chain(profile.names(stack));
        // The innermost comes first.
        let mut stacked: Vec<u64> = names.map(|name| locations.place(name)).collect();
        stacked.reverse();
        let values = [stack.samples, stack.samples.saturating_mul(period_ns)];
        put_bytes(&mut out, field::SAMPLE, &sample(&stacked, &values, pid, stack.pid));
    }
    for (at, name) in locations.list.iter().enumerate().skip(1) {
        let id = at as u64;
        let name = strings.place(name);
        put_bytes(&mut out, field::LOCATION, &location(id));
        put_bytes(&mut out, field::FUNCTION, &numbers(&[(1, id), (2, name), (3, name)]));
    }
    for text in &strings.list {
        put_bytes(&mut out, field::STRING, text.as_bytes());
    }
    put_number(&mut out, field::TIME_NANOS, started_unix_ms.saturating_mul(1_000_000));
    put_number(&mut out, field::DURATION_NANOS, profile.span_ms.saturating_mul(1_000_000));
    put_bytes(&mut out, field::PERIOD_TYPE, &time);
    put_number(&mut out, field::PERIOD, period_ns);
    out
}

fn value_type(strings: &mut Strings, kind: &str, unit: &str) -> Vec<u8> {
    numbers(&[(1, strings.place(kind)), (2, strings.place(unit))])
}

fn sample(locations: &[u64], values: &[u64], pid_key: u64, pid: u32) -> Vec<u8> {
    let mut out = Vec::new();
    put_bytes(&mut out, 1, &packed(locations));
    put_bytes(&mut out, 2, &packed(values));
    put_bytes(&mut out, 3, &numbers(&[(1, pid_key), (3, u64::from(pid))]));
    out
}

/// A location of one function, which has the same number.
fn location(id: u64) -> Vec<u8> {
    let mut out = numbers(&[(1, id)]);
    put_bytes(&mut out, 4, &numbers(&[(1, id)]));
    out
}

fn numbers(fields: &[(u64, u64)]) -> Vec<u8> {
    let mut out = Vec::new();
    fields.iter().for_each(|(field, value)| put_number(&mut out, *field, *value));
    out
}

fn packed(values: &[u64]) -> Vec<u8> {
    let mut out = Vec::new();
    values.iter().for_each(|value| put_varint(&mut out, *value));
    out
}

fn put_number(out: &mut Vec<u8>, field: u64, value: u64) {
    put_varint(out, field << 3);
    put_varint(out, value);
}

fn put_bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    put_varint(out, field << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Texts, each once; the first is empty, as the format wants it.
struct Strings {
    list: Vec<String>,
    places: HashMap<String, u64>,
}

impl Strings {
    fn new() -> Self {
        Self { list: vec![String::new()], places: HashMap::from([(String::new(), 0)]) }
    }

    fn place(&mut self, text: &str) -> u64 {
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        let place = self.list.len() as u64;
        self.list.push(text.to_owned());
        self.places.insert(text.to_owned(), place);
        place
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use std::io::Read;

    /// The messages as pprof's profile.proto defines them, as far as they are written.
    #[derive(Clone, PartialEq, prost::Message)]
    struct Profile {
        #[prost(message, repeated, tag = "1")]
        sample_type: Vec<ValueType>,
        #[prost(message, repeated, tag = "2")]
        sample: Vec<Sample>,
        #[prost(message, repeated, tag = "4")]
        location: Vec<Location>,
        #[prost(message, repeated, tag = "5")]
        function: Vec<Function>,
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
    struct Sample {
        #[prost(uint64, repeated, tag = "1")]
        location_id: Vec<u64>,
        #[prost(int64, repeated, tag = "2")]
        value: Vec<i64>,
        #[prost(message, repeated, tag = "3")]
        label: Vec<Label>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    struct Label {
        #[prost(int64, tag = "1")]
        key: i64,
        #[prost(int64, tag = "3")]
        num: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    struct Location {
        #[prost(uint64, tag = "1")]
        id: u64,
        #[prost(message, repeated, tag = "4")]
        line: Vec<Line>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    struct Line {
        #[prost(uint64, tag = "1")]
        function_id: u64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    struct Function {
        #[prost(uint64, tag = "1")]
        id: u64,
        #[prost(int64, tag = "2")]
        name: i64,
    }

    impl Profile {
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
    fn a_protobuf_library_reads_it() {
        let packed = super::render(&crate::profile::example(), 1_700_000_000_000).unwrap();
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut bytes).unwrap();
        let profile = Profile::decode(bytes.as_slice()).unwrap();
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
