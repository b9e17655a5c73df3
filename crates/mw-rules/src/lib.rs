//! The catalogue: pure functions from a [`Window`](mw_model::Window) to findings.
//!
//! Nothing here reads a file, a clock or the environment: what a rule knows is in the window, so a
//! finding from a live machine, a captured tree and a recording is the same. [`RULES`] lists the
//! rules, [`check`] looks for their hazards, [`explain`] for their causes of an incident, [`preflight`]
//! answers what a request of a given size would meet, [`room`] how to provide it, [`account`] says where all memory is, [`trends`] what grows
//! in a recording ([`trend`] has the estimator).

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::indexing_slicing))]

mod account;
mod accusation;
mod arc;
mod awaited_peer;
mod blame;
mod busy_disk;
mod by_path;
mod by_scores;
mod cause_score;
mod cgroup_counts;
mod cgroup_parts;
mod check;
mod condition_state;
mod confidence;
mod container_counters;
mod counted;
mod diagnosis;
mod disk_writers;
mod explain;
mod failure;
mod forced_work;
mod function_sets;
mod group_kills;
mod group_settings;
mod group_waits;
mod hog;
mod huge_page_excess;
mod ipc_ids;
mod kernel_memory;
mod killer;
mod largest_holders;
mod mapped_limits;
mod named_limit;
mod node_condition;
mod oom_tie;
mod oom_words;
mod open_files;
mod outlook;
mod path_words;
pub mod preflight;
mod pressure_alone;
pub mod profiles;
mod protection;
mod raised_rlimit;
mod reached_limit;
mod read_ahead;
mod registry;
mod request;
mod roles;
pub mod room;
mod rules;
mod share;
mod shared_memory;
mod spent_time;
mod stack_evidence;
mod stall_window;
mod suspect;
pub mod trend;
mod trends;
mod untraced;
mod user_signals;
mod user_tasks;
mod vmalloc_space;
mod watermark;

pub use account::account;
pub use blame::blame;
pub use check::{check, check_rules, sum_up};
pub use condition_state::ConditionState;
pub use confidence::CONFIDENCE_BY_SCORE;
pub use explain::explain;
pub use forced_work::forcing_processes;
pub use function_sets::listed_sets;
pub use group_waits::divide_waits;
pub use killer::{
    KILL_LOG_WORDS, KillLogLine, SentSignal, complete_kill, explain_signal, kill_log_units,
    kill_of_oom, kills_of_lines,
};
pub use node_condition::NodeCondition;
pub use pressure_alone::is_pressure_alone;
pub use registry::{RULES, Rule, find};
pub use suspect::PLAUSIBLE_PERCENT;
pub use trends::{exhausted, exhaustion, forecast, supplies, trends};
