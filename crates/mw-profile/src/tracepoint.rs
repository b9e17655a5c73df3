//! Tracepoints as tracefs describes them: `events/SYSTEM/NAME/format`.

/// Positions of the fields of a tracepoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TracepointFormat {
    /// Number of it for perf_event_open(2).
    pub(crate) id: u64,
    fields: Vec<(String, Field)>,
}

/// A number in a tracepoint's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field {
    offset: usize,
    size: usize,
    signed: bool,
}

/// The most fields of a tracepoint that are kept.
const MAX_FIELDS: usize = 64;

impl TracepointFormat {
    /// Reads a format file; `None` where it names no id.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID:"))?.trim().parse().ok()?;
        let fields = text.lines().filter_map(|line| field(line.trim())).take(MAX_FIELDS).collect();
        Some(Self { id, fields })
    }

    /// The field of this name.
    pub(crate) fn field(&self, name: &str) -> Option<Field> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, field)| *field)
    }
}

/// `field:unsigned long gfp_flags; offset:16; size:8; signed:0;`, with tabs between.
fn field(line: &str) -> Option<(String, Field)> {
    let mut parts = line.split(';').map(str::trim);
    let declared = parts.next()?.strip_prefix("field:")?;
    let mut number = |name| -> Option<usize> {
        parts.next()?.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok()
    };
    let (offset, size) = (number("offset")?, number("size")?);
    let signed = number("signed").is_some_and(|signed| signed != 0);
    let name = declared.rsplit([' ', '*']).next()?;
    let name = name.split('[').next()?;
    (!name.is_empty()).then(|| (name.to_owned(), Field { offset, size, signed }))
}

impl Field {
    /// Its text in a record, up to the first NUL; empty where the record is too short.
    pub(crate) fn text(self, record: &[u8]) -> &[u8] {
        let end = self.offset.saturating_add(self.size);
        let bytes = record.get(self.offset..end).unwrap_or_default();
        bytes.split(|byte| *byte == 0).next().unwrap_or_default()
    }

    /// Its value in a record; `None` where the record is too short, or it is no number.
    pub(crate) fn read(self, record: &[u8]) -> Option<i64> {
        let bytes = record.get(self.offset..self.offset.checked_add(self.size)?)?;
        Some(match (bytes, self.signed) {
            (&[byte], false) => i64::from(byte),
            (&[byte], true) => i64::from(byte.cast_signed()),
            (&[a, b], false) => i64::from(u16::from_ne_bytes([a, b])),
            (&[a, b], true) => i64::from(i16::from_ne_bytes([a, b])),
            (&[a, b, c, d], false) => i64::from(u32::from_ne_bytes([a, b, c, d])),
            (&[a, b, c, d], true) => i64::from(i32::from_ne_bytes([a, b, c, d])),
            (bytes, _) => i64::from_ne_bytes(bytes.try_into().ok()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NODE_RECLAIM: &str = "name: mm_vmscan_node_reclaim_begin
ID: 624
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:int nid;\toffset:8;\tsize:4;\tsigned:1;
\tfield:int order;\toffset:12;\tsize:4;\tsigned:1;
\tfield:unsigned long gfp_flags;\toffset:16;\tsize:8;\tsigned:0;
\tfield:char bdi[32];\toffset:24;\tsize:32;\tsigned:0;
\tfield:__data_loc char[] comm;\toffset:56;\tsize:4;\tsigned:0;

print fmt: \"nid=%d order=%d\", REC->nid, REC->order
";

    #[test]
    fn fields_are_found_by_name_and_read() {
        let format = TracepointFormat::parse(NODE_RECLAIM).unwrap();
        assert_eq!(format.id, 624);
        let mut record = [0_u8; 60];
        record[8..12].copy_from_slice(&(-1_i32).to_ne_bytes());
        record[12..16].copy_from_slice(&9_i32.to_ne_bytes());
        let read = |name| format.field(name).and_then(|field| field.read(&record));
        assert_eq!((read("nid"), read("order"), read("gfp_flags")), (Some(-1), Some(9), Some(0)));
        assert_eq!(read("bdi"), None, "no number");
        assert_eq!(read("nothing"), None);
        assert!(format.field("comm").is_some());
        assert_eq!(format.field("order").unwrap().read(&record[..14]), None, "cut");
    }

    #[test]
    fn what_is_no_format_is_refused() {
        assert_eq!(TracepointFormat::parse(""), None);
        assert_eq!(TracepointFormat::parse("ID: many\n"), None);
        let sparse =
            TracepointFormat::parse("ID: 1\n\tfield:int x;\toffset:a;\n\tfield:;\n").unwrap();
        assert_eq!(sparse.fields, []);
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in ".{0,400}", record in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Some(format) = TracepointFormat::parse(&format!("ID: 5\n{text}")) {
                for (_, field) in format.fields {
                    let _ = field.read(&record);
                }
            }
        }
    }
}
