//! Incidents as the file holds them: what is listed, the body, and the rows of the table.

use crate::codec::{self, RowBlock};
use mw_model::fair::cgroup_tree;
use mw_model::{INCIDENT_SCHEMA, Incident, IncidentRow, TriggerKind, bounded_json};
use serde::Serialize;
use serde::de::value::{Error, StrDeserializer};
use serde::de::{DeserializeOwned, IntoDeserializer};
use std::io;

/// The most bytes that an incident's body decompresses to.
const MAX_BODY_BYTES: usize = 32 << 20;

/// The most memory that an incident's body may become: 4,096 stacks before and during the stall take an eighth of it.
const MAX_INCIDENT_BYTES: usize = 160 << 20;

/// An incident, ready to be written.
#[derive(Debug)]
pub(crate) struct PackedIncident {
    /// Its entry in the list.
    pub(crate) row: IncidentRow,
    pub(crate) body: Vec<u8>,
    /// The rows of its table.
    pub(crate) rows: Vec<u8>,
}

impl PackedIncident {
    /// Its source.
    pub(crate) fn source(&self) -> String {
        let IncidentRow { trigger_kind, trigger_name, subject, .. } = &self.row;
        let subject = subject.as_ref().map(ToString::to_string);
        source(&word(trigger_kind), trigger_name, subject.as_deref())
    }
}

/// Bytes that an incident takes of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IncidentSize {
    pub(crate) id: u64,
    pub(crate) bytes: u64,
    /// Its source, for [`mw_model::fair::place_to_free`].
    pub(crate) source: String,
}

/// Source of an incident: the probe, or the trigger and the user, service or container whose cgroup it is about.
pub(crate) fn source(kind: &str, name: &str, subject: Option<&str>) -> String {
    if kind == word(TriggerKind::Probe) {
        return format!("probe/{name}");
    }
    let cgroup = subject.and_then(|subject| subject.strip_prefix("cgroup "));
    format!("{name}{}", cgroup.map(cgroup_tree).unwrap_or_default())
}

/// An incident as the file will hold it.
pub(crate) fn pack(mut incident: Incident) -> io::Result<PackedIncident> {
    let row = incident.row();
    let columns = incident.table.columns.iter_mut();
    let block = RowBlock {
        columns: columns.map(|column| std::mem::take(&mut column.values)).collect(),
        at_unix_ms: std::mem::take(&mut incident.table.at_unix_ms),
    };
    let json = serde_json::to_vec(&incident)?;
    Ok(PackedIncident { row, body: codec::compress(&json)?, rows: codec::pack(&block)? })
}

/// The incident of a body and rows.
///
/// # Errors
/// What is wrong with them.
pub(crate) fn unpack(body: &[u8], rows: &[u8]) -> Result<Incident, String> {
    let json = codec::decompress(body, MAX_BODY_BYTES)?;
    let mut incident: Incident =
        bounded_json::from_slice(&json, MAX_INCIDENT_BYTES).map_err(|error| error.to_string())?;
    drop(json);
    if incident.schema > INCIDENT_SCHEMA {
        return Err(format!(
            "schema {}, this memwright supports {INCIDENT_SCHEMA}",
            incident.schema
        ));
    }
    if incident.table.columns.len() > codec::MAX_COLUMNS {
        return Err("too many columns".to_owned());
    }
    let block = codec::unpack(rows, incident.table.columns.len())?;
    incident.table.at_unix_ms = block.at_unix_ms;
    for (column, values) in incident.table.columns.iter_mut().zip(block.columns) {
        column.values = values;
    }
    Ok(incident)
}

/// The word for a variant: of a kind of trigger, of a state.
#[must_use]
pub fn word(variant: impl Serialize) -> String {
    let value = serde_json::to_value(variant).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

/// The variant that a word stands for; `None` for a word of a later version.
pub(crate) fn from_word<T: DeserializeOwned>(word: &str) -> Option<T> {
    let word: StrDeserializer<'_, Error> = word.into_deserializer();
    T::deserialize(word).ok()
}
