//! The full-screen view of `memwright top`, of the running machine or of a recording.
//!
//! A [`Feed`] ([`Live`] or [`Replay`]) delivers screens, and [`run()`] draws them and handles keys.
//! Everything between is pure: a [`Screen`] is computed from a window and the findings of the rules;
//! [`Top`] turns keys into changes of the view; [`draw()`] draws both on a terminal of any size. A
//! running machine and a recording therefore look the same.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod draw;
mod event_loop;
mod face;
mod feed;
mod keys;
mod live;
mod measure;
mod moment;
mod replay;
mod session;
mod short;
mod state;
mod trail;
mod view;

pub use draw::draw;
pub use event_loop::run;
pub use face::{Face, Glyphs};
pub use feed::Feed;
pub use keys::{Action, BINDINGS, Binding, Key};
pub use live::Live;
pub use measure::{Curve, MEASURES, Measure, MeasureUnit};
pub use moment::{
    GroupRow, IncidentMark, MemoryBar, Moment, NodeRow, PressureRow, Screen, TaskRow, Timeline,
    ZoneRow,
};
pub use replay::{Replay, ReplayError, Unpack};
pub use state::{KeyEffect, Mode, Top};
pub use trail::{TRAIL_MS, Trail};
pub use view::View;
