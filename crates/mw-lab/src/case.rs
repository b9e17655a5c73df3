//! The description of a case, `lab/NAME/case.toml`.
//!
//! ```toml
//! description = "What the case is about"
//! kind = "decoy"           # or "field-report", or "evaluation" (evaluation.rs); default "rule"
//!
//! [machine]                # what every variant runs on
//! kernel = "6.1"           # or "6.12", "6.18", "7.3"
//! memory = "1G"
//! cpus = 2                 # default 2
//! nodes = 2                # default 1; with fewer cpus than nodes, the last nodes have none
//! cgroup = "v1"            # default "v2"
//! append = "psi=1"         # more kernel parameters
//! timeout_s = 120          # default 300
//! programs = ["numactl"]   # of the host, copied to the guest's /bin
//! modules = ["virtio_blk"]
//! balloon = "256M"         # what the host takes of the memory, with the module virtio_balloon
//! preload = true           # `memwright run` works: the preload library is there, and programs in C are dynamic
//! [[machine.disks]]        # the guest's /dev/disk0
//! size = "1G"
//! format = "ext4"          # or "swap", "raw"
//! write_bytes_per_s = 2000000
//!
//! [variant.firing]
//! how = "How the condition is created"
//! [variant.quiet]
//! how = "What is different"
//! kind = "field-report"            # instead of the case's
//! machine = { kernel = "6.12" }    # replaces these fields of [machine]
//! expect = { absent = ["swap-thrash"] }    # replaces all of [expect]
//!
//! [expect]                 # for every variant without an `expect` of its own
//! found = ["swap-thrash"]  # rules that report a finding while the condition is in force
//! absent = ["oom-kill"]    # rules that pass
//! says = { swap-thrash = "swap" }    # a part of the headline of a rule's finding
//! no_finding = true        # no other rule reports a warning or a critical finding
//! fix = ["swap-thrash"]    # rules whose findings `memwright fix` removes
//! stays = true             # the condition does not return after `undo`
//! looks = 5                # checks, a second apart, of a condition that comes in bursts; default 1
//! log = ["Out of memory"]  # parts of expected lines of the kernel's log
//! [expect.effect.create]   # a measurement that measure.sh prints as `create 2.31 s`
//! during = { times_at_least = 3.0 }    # times the value before
//! fixed = { of_during_at_most = 0.5 }  # times the value while the condition was in force
//! reverted = { at_least = 5.0 }        # in its unit; also at_most, times_at_most
//!
//! [watch]                  # how the recorder watches, with `memwright lab --watch`
//! probes = ["redis://localhost"]    # as `memwright watch --probe` takes them
//! limit = "1s"             # default 500ms
//! cause = ["thp-compaction"]    # one of these rules must be the first cause of the longest stall
//! quiet = true             # instead of `cause`: no stall, or none that is attributed to memory
//! functions = ["migrate_pages"] # one of these kernel functions must be among the three that grew most
//! ```
//!
//! A variant may have a `watch` of its own.

pub mod catalogue;
pub mod evaluation;
pub mod expect;
pub mod machine;
mod parse;
mod variant;
pub mod watch;

pub use variant::{Case, CaseKind, GuestCgroup, Variant};
