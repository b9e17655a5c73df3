//! Samples, and the two formats in which they are written.

use crate::family::{FAMILIES, Family, MetricKind};
use std::fmt::Write;

/// A format of the Prometheus world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exposition {
    /// The text format 0.0.4, as node_exporter's textfile collector reads it.
    Text,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Exposition {
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Format that a client prefers by its Accept header: OpenMetrics only where it asks for it.
    #[must_use]
    pub fn negotiate(accept: &str) -> Self {
        let quality = |media: &str| {
            let ranges = accept.split(',').map(|range| range.split(';').map(str::trim));
            let of_media = ranges.filter_map(|mut words| {
                let is_media = words.next().is_some_and(|name| name.eq_ignore_ascii_case(media));
                let parameters: Vec<(&str, &str)> =
                    words.filter_map(|w| w.split_once('=')).collect();
                let version = parameters.iter().find(|(name, _)| *name == "version");
                let is_known = version.is_none_or(|(_, v)| ["0.0.1", "0.0.4", "1.0.0"].contains(v));
                let quality = parameters.iter().find(|(name, _)| *name == "q");
                let quality = quality.map_or(Some(1.0), |(_, q)| q.parse::<f64>().ok());
                quality.filter(|_| is_media && is_known)
            });
            of_media.fold(0.0, f64::max)
        };
        let open = quality("application/openmetrics-text");
        if open > 0.0 && open >= quality("text/plain") { Self::OpenMetrics } else { Self::Text }
    }
}

/// All samples of one moment.
#[derive(Debug, Clone, Default)]
pub struct MetricsPage {
    samples: Vec<MetricSample>,
}

#[derive(Debug, Clone)]
struct MetricSample {
    family: &'static str,
    /// `_bucket`, `_sum` or `_count` of a histogram.
    suffix: &'static str,
    labels: Vec<(&'static str, String)>,
    value: f64,
    exemplar: Option<Exemplar>,
}

/// An incident as an example of what a bucket counts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Exemplar {
    pub(crate) incident_id: u64,
    pub(crate) value: f64,
    pub(crate) unix_ms: u64,
}

impl MetricsPage {
    /// Adds a sample, with the values of the family's labels in their order.
    pub(crate) fn add<const N: usize>(
        &mut self,
        family: &'static Family,
        labels: [&str; N],
        value: f64,
    ) {
        debug_assert_eq!(family.labels.len(), N, "{}", family.name);
        let labels = family.labels.iter().copied().zip(labels.map(str::to_owned)).collect();
        self.push(family, "", labels, value, None);
    }

    pub(crate) fn push(
        &mut self,
        family: &'static Family,
        suffix: &'static str,
        labels: Vec<(&'static str, String)>,
        value: f64,
        exemplar: Option<Exemplar>,
    ) {
        self.samples.push(MetricSample { family: family.name, suffix, labels, value, exemplar });
    }

    #[must_use]
    pub fn series(&self) -> usize {
        self.samples.len()
    }

    #[must_use]
    pub fn write(&self, exposition: Exposition) -> String {
        let mut out = String::new();
        for family in FAMILIES {
            let mut samples =
                self.samples.iter().filter(|sample| sample.family == family.name).peekable();
            if samples.peek().is_none() {
                continue;
            }
            head(family, exposition, &mut out);
            samples.for_each(|sample| line(sample, exposition, &mut out));
        }
        if exposition == Exposition::OpenMetrics {
            out.push_str("# EOF\n");
        }
        out
    }
}

/// The lines before a family's samples. OpenMetrics has the name without the suffix of its kind; the text format
/// knows no info.
fn head(family: &Family, exposition: Exposition, out: &mut String) {
    let (name, kind) = match (exposition, family.kind) {
        (Exposition::Text, MetricKind::Info) => (family.name, "gauge"),
        (Exposition::Text, kind) => (family.name, kind.name()),
        (Exposition::OpenMetrics, kind) => {
            let name = family.name.trim_end_matches("_total").trim_end_matches("_info");
            (name, kind.name())
        }
    };
    let _ = writeln!(out, "# HELP {name} {}", family.help);
    let _ = writeln!(out, "# TYPE {name} {kind}");
    if exposition == Exposition::OpenMetrics && !family.unit.is_empty() {
        let _ = writeln!(out, "# UNIT {name} {}", family.unit);
    }
}

fn line(sample: &MetricSample, exposition: Exposition, out: &mut String) {
    let _ = write!(out, "{}{}", sample.family, sample.suffix);
    for (index, (name, value)) in sample.labels.iter().enumerate() {
        out.push(if index == 0 { '{' } else { ',' });
        let _ = write!(out, "{name}=\"{}\"", escaped(value));
    }
    if !sample.labels.is_empty() {
        out.push('}');
    }
    let _ = write!(out, " {}", sample.value);
    if let (Exposition::OpenMetrics, Some(exemplar)) = (exposition, &sample.exemplar) {
        let Exemplar { incident_id, value, unix_ms } = exemplar;
        let seconds = *unix_ms as f64 / 1000.0;
        let _ = write!(out, " # {{incident_id=\"{incident_id}\"}} {value} {seconds:.3}");
    }
    out.push('\n');
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family;

    #[test]
    fn a_client_gets_the_format_that_it_prefers() {
        let prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;\
                          version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        for (accept, exposition) in [
            (prometheus, Exposition::OpenMetrics),
            ("", Exposition::Text),
            ("*/*", Exposition::Text),
            ("text/html, text/plain", Exposition::Text),
            ("application/openmetrics-text;q=0.3, text/plain;q=0.5", Exposition::Text),
            ("application/openmetrics-text; version=2.0.0, text/plain;q=0.5", Exposition::Text),
            ("application/openmetrics-text;q=0", Exposition::Text),
        ] {
            assert_eq!(Exposition::negotiate(accept), exposition, "{accept}");
        }
    }

    #[test]
    fn formats_differ_in_what_the_standards_differ() {
        let mut page = MetricsPage::default();
        page.add(family::BUILD, ["1"], 1.0);
        page.add(family::STALLS, ["d\"b\n", "unknown"], 2.0);
        page.add(family::MEMORY, [], 1e12);
        let help = |family: &Family, name| format!("# HELP {name} {}\n", family.help);
        let text = help(family::BUILD, "memwright_build_info")
            + "# TYPE memwright_build_info gauge\nmemwright_build_info{version=\"1\"} 1\n"
            + &help(family::MEMORY, "memwright_memory_bytes")
            + "# TYPE memwright_memory_bytes gauge\nmemwright_memory_bytes 1000000000000\n"
            + &help(family::STALLS, "memwright_stalls_total")
            + "# TYPE memwright_stalls_total counter\n\
               memwright_stalls_total{probe=\"d\\\"b\\n\",cause=\"unknown\"} 2\n";
        assert_eq!(page.write(Exposition::Text), text);
        let open = page.write(Exposition::OpenMetrics);
        for line in [
            "# TYPE memwright_build info",
            "# UNIT memwright_memory_bytes bytes",
            "# TYPE memwright_stalls counter",
        ] {
            assert!(open.contains(&format!("{line}\n")), "{open}");
        }
        assert!(open.ends_with("\n# EOF\n"));
    }
}
