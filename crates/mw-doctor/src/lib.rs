//! Requirements of memwright on a machine: kernel features, privileges and memwright's own parts, each with the
//! command that enables it, for `memwright doctor`.
//!
//! `read` and `unit` read the machine ([`HostFacts`]). `judge` and `judge_service`, which are pure, judge it:
//! a [`Requirement`] each, which together are the [`DoctorReport`].

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod host;
mod judge;
mod judge_service;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod judge_tests;
mod read;
mod report;
mod unit;

pub use host::{
    BootLoader, Configuration, FileText, HostFacts, Installation, RecordingFile, Tracepoint,
    UnitFailure, UnitState,
};
pub use judge::judge;
pub use report::{DOCTOR_SCHEMA, DoctorReport, Requirement, RequirementState};
