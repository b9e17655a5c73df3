//! The live view of `memwright top`: what is shown, which keys do what, and how it is drawn.
//!
//! Nothing here reads a file, a clock or a terminal. A [`Screen`] is made by pure functions from a
//! window and what the rules say of it; [`Top`] turns keys into changes of the view; [`draw()`]
//! puts both on a terminal of any size. So a running machine and a recording look the same.

mod draw;
mod face;
mod keys;
mod measure;
mod moment;
mod short;
mod state;
mod trail;

pub use draw::draw;
pub use face::{Face, Glyphs};
pub use keys::{Action, BINDINGS, Binding, Key};
pub use measure::{MEASURES, Measure, Series, Unit};
pub use moment::{
    GroupRow, IncidentMark, MemoryBar, Moment, NodeRow, PressureRow, Screen, TaskRow, Timeline,
    ZoneRow,
};
pub use state::{Effect, Mode, Top, View};
pub use trail::{TRAIL_MS, Trail};
