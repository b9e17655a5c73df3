//! JSON schemas of the output of `--json`, for docs/schema.

use crate::command::{bench, fleet, heartbeats, iotune, pool};
use schemars::{Schema, schema_for};

/// Name, version of the format and schema of each output.
#[must_use]
pub fn schemas() -> [(&'static str, u32, Schema); 10] {
    [
        ("bench", bench::report::SCHEMA, schema_for!(bench::report::Report)),
        ("doctor", mw_doctor::DOCTOR_SCHEMA, schema_for!(mw_doctor::DoctorReport)),
        ("fleet-drift", fleet::drift::SCHEMA, schema_for!(fleet::drift::FleetDrift)),
        ("fleet-facts", fleet::facts::SCHEMA, schema_for!(fleet::facts::Facts)),
        (
            "fleet-incidents",
            fleet::incidents::SCHEMA,
            schema_for!(fleet::incidents::FleetIncidents),
        ),
        ("fleet-room", fleet::room::SCHEMA, schema_for!(fleet::room::FleetRoom)),
        ("heartbeats", heartbeats::join::SCHEMA, schema_for!(heartbeats::join::Heartbeats)),
        ("iotune", iotune::show::SCHEMA, schema_for!(iotune::show::Shown)),
        ("make-room", mw_model::ROOM_SCHEMA, schema_for!(mw_model::RoomReport)),
        ("pool", pool::report::SCHEMA, schema_for!(pool::report::Report)),
    ]
}
