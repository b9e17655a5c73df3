//! JSON schemas of the output of `--json`, for docs/schema.

use crate::command::iotune;
use mw_cluster::heartbeats::{HEARTBEATS_SCHEMA, LateHeartbeats};
use schemars::{Schema, schema_for};

/// Name, version of the format and schema of each output.
#[must_use]
pub fn schemas() -> [(&'static str, u32, Schema); 13] {
    [
        ("bench", mw_model::BENCH_SCHEMA, schema_for!(mw_model::BenchReport)),
        ("blame", mw_model::BLAME_SCHEMA, schema_for!(mw_model::BlameList)),
        ("doctor", mw_doctor::DOCTOR_SCHEMA, schema_for!(mw_doctor::DoctorReport)),
        ("fleet-drift", mw_fleet::DRIFT_SCHEMA, schema_for!(mw_fleet::FleetDrift)),
        ("fleet-facts", mw_fleet::FACTS_SCHEMA, schema_for!(mw_fleet::NodeFacts)),
        (
            "fleet-incidents",
            mw_fleet::FLEET_INCIDENTS_SCHEMA,
            schema_for!(mw_fleet::FleetIncidents),
        ),
        ("fleet-room", mw_fleet::FLEET_ROOM_SCHEMA, schema_for!(mw_fleet::FleetRoom)),
        ("heartbeats", HEARTBEATS_SCHEMA, schema_for!(LateHeartbeats)),
        ("iotune", iotune::show::SCHEMA, schema_for!(iotune::show::IotuneReport)),
        (
            "kernel-log",
            mw_kernel_log::KERNEL_LOG_SCHEMA,
            schema_for!(mw_kernel_log::KernelLogAnswer),
        ),
        ("killed", mw_model::KILLS_SCHEMA, schema_for!(mw_model::KillList)),
        ("make-room", mw_model::ROOM_SCHEMA, schema_for!(mw_model::RoomReport)),
        ("pool", mw_model::POOL_SCHEMA, schema_for!(mw_model::PoolReport)),
    ]
}
