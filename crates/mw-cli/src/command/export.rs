//! `memwright export`: a recording or an incident for other programs.

use crate::args::{ExportArgs, Form};
use crate::config::Config;
use crate::output::{self, Readers};
use crate::progress::Spinner;
use crate::{Exit, Failure, terminal};
use mw_model::{Incident, Profile, format_bytes, format_count};
use mw_record::{ExportFormat, Recording, export, export_table};
use mw_render::profile::{collapsed, pprof, speedscope};
use std::io::{self, BufWriter, Write};
use std::path::Path;

pub(crate) fn run(args: &ExportArgs, config: &Config) -> Result<Exit, Failure> {
    let recording = super::recording(args.recording.as_deref(), config)?;
    let path = &args.to.path;
    let failed = |error: &io::Error| could_not_write(path, error);
    let (what, bytes) = output::write(path, Readers::Owner, &failed, |file| {
        let _spinner = Spinner::start("exporting");
        let mut file = CountingFile { file, bytes: 0 };
        let what = match args.incident {
            Some(id) => one_incident(&super::report::find(&recording, id)?, args, &mut file)?,
            None => rows(&recording, args, &mut file)?,
        };
        Ok((what, file.bytes))
    })?;
    terminal::print(&format!("{}: {what}, {}\n", path.display(), format_bytes(bytes)));
    Ok(Exit::Fine)
}

/// A file, and how much was written to it.
struct CountingFile<'a> {
    file: &'a mut (dyn Write + Send),
    bytes: u64,
}

impl Write for CountingFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn rows(
    recording: &Recording,
    args: &ExportArgs,
    file: &mut CountingFile<'_>,
) -> Result<String, Failure> {
    let Form::Rows(format) = args.to.form else {
        let line = "only an incident has a profile (use --incident ID)";
        return Err(Failure::new(Exit::Usage, line));
    };
    let range = recording.range().map_err(|error| Failure::from_error(&error))?;
    let last_ms = range.map_or(0, |(_, last_ms)| last_ms);
    let since = args.since.map_or(0, |moment| moment.unix_ms(last_ms));
    let until = args.until.map_or(u64::MAX, |moment| moment.unix_ms(last_ms));
    let mut out = BufWriter::new(file);
    let rows = export(recording, since, until, format, &mut out)
        .map_err(|error| Failure::from_error(&error))?;
    out.flush().map_err(|error| could_not_write(&args.to.path, &error))?;
    Ok(format_count(rows, "row"))
}

/// Writes the requested part of an incident; returns its description.
fn one_incident(
    incident: &Incident,
    args: &ExportArgs,
    file: &mut CountingFile<'_>,
) -> Result<String, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::new(Exit::CouldNotCheck, error);
    let bytes = match args.to.form {
        Form::Rows(ExportFormat::Json) => {
            serde_json::to_vec_pretty(incident).map_err(|error| failed(&error))?
        }
        Form::Rows(format) => {
            export_table(&incident.table, format, file).map_err(|error| failed(&error))?;
            return Ok(format_count(incident.table.rows(), "row"));
        }
        Form::Collapsed => collapsed::render(profile(incident)?).into_bytes(),
        Form::Pprof => pprof::render(profile(incident)?, incident.started_unix_ms)
            .map_err(|error| failed(&error))?,
        Form::Speedscope => {
            let during = profile(incident)?;
            let before = incident.baseline.as_ref().map(|profile| ("before", profile));
            let profiles: Vec<(&str, &Profile)> =
                [("during", during)].into_iter().chain(before).collect();
            let name = format!("incident {} of {}", incident.id, incident.host.name);
            speedscope::render(&name, &profiles).map_err(|error| failed(&error))?.into_bytes()
        }
    };
    file.write_all(&bytes).map_err(|error| could_not_write(&args.to.path, &error))?;
    Ok(format!("incident {}", incident.id))
}

fn profile(incident: &Incident) -> Result<&Profile, Failure> {
    incident.profile.as_ref().ok_or_else(|| {
        let line =
            format!("incident {} has no kernel profile; its JSON has the reason", incident.id);
        Failure::new(Exit::CouldNotCheck, line)
    })
}

fn could_not_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::of_output(path, error, "--to")
}
