//! Arguments of `export`.

use super::watch::incident_id;
use super::{IncidentId, TimeArg};
use clap::Args as ClapArgs;
use mw_record::ExportFormat;
use std::path::PathBuf;
use std::str::FromStr;

#[derive(Debug, Clone, ClapArgs)]
pub struct ExportArgs {
    /// The recording [default: /var/lib/memwright/recording.db]
    #[arg(long, value_name = "FILE")]
    pub recording: Option<PathBuf>,
    /// Start: 10:19, '2026-11-22 10:19:30', RFC 3339 or '2 h ago' [default: the beginning]
    #[arg(long, value_name = "TIME")]
    pub since: Option<TimeArg>,
    /// End [default: the end of the recording]
    #[arg(long, value_name = "TIME")]
    pub until: Option<TimeArg>,
    /// Export one incident (number, last or worst): all of it (.json), its metrics at ten rows a
    /// second (.parquet, .csv), or its kernel profile (.collapsed, .pprof, .speedscope.json)
    #[arg(long, value_name = "ID", value_parser = incident_id)]
    #[arg(conflicts_with_all = ["since", "until"])]
    pub incident: Option<IncidentId>,
    /// Output file; the extension selects the format: .parquet, .csv or .json
    #[arg(long, value_name = "FILE")]
    pub to: ExportTarget,
}

/// Destination and format of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportTarget {
    pub path: PathBuf,
    pub form: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Rows of numbers.
    Rows(ExportFormat),
    /// A stack and its count a line.
    Collapsed,
    /// For pprof and what reads its files.
    Pprof,
    /// For www.speedscope.app and its desktop version.
    Speedscope,
}

/// Endings and what they stand for; the first that fits.
const ENDINGS: &[(&str, Form)] = &[
    (".speedscope.json", Form::Speedscope),
    (".json", Form::Rows(ExportFormat::Json)),
    (".csv", Form::Rows(ExportFormat::Csv)),
    (".parquet", Form::Rows(ExportFormat::Parquet)),
    (".collapsed", Form::Collapsed),
    (".pprof", Form::Pprof),
    (".pb.gz", Form::Pprof),
];

impl FromStr for ExportTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((_, form)) = ENDINGS.iter().find(|(ending, _)| text.ends_with(ending)) {
            return Ok(Self { path: PathBuf::from(text), form: *form });
        }
        if text.ends_with(".parquet") {
            return Err("built without Parquet support (use .csv or .json)".to_owned());
        }
        Err("unknown file extension (use .parquet, .csv or .json; for an incident's profile \
             .collapsed, .pprof or .speedscope.json)"
            .to_owned())
    }
}
