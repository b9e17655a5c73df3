//! What rules, preflight and forecasts say of snapshots, one file for each subject.

mod account;
mod applied;
mod caller;
mod catalogue;
mod counted;
mod exhausted;
mod fixtures;
mod flooded_device;
mod kernel_limits;
mod kernel_zones;
mod mutated;
mod outlook;
mod remedies;
mod trends;
