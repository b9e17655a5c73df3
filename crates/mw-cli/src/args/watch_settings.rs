//! The recorder's settings that are one value each: options of `watch`, and keys of `[watch]` in the configuration with the
//! same names. Help, man page, completions, the conflicts of `--now` and the merge of both come from this table. A new row
//! needs its use in command/watch.rs, and nothing else.

/// Passes the table to another macro. A row has the help, the name and type, the name of the value in the help, what parses
/// an option, and what reads a key (functions that are in scope where the other macro is).
macro_rules! watch_settings {
    ($receiver:ident) => {
        $receiver! {
            /// Response time above which a service stalls [default: 500ms]
            limit: Duration, "TIME", duration, "time";
            /// Interval between probes of a service [default: 1s]
            interval: Duration, "TIME", duration, "time";
            /// Timeout of a probe [default: 30s]
            timeout: Duration, "TIME", duration, "time";
            /// Token timeout of a cluster heartbeat on this machine; a quarter of it counts as a stall
            token_timeout: Duration, "TIME", duration, "time";
            /// Interval at which the canary measures page-fault latency while there are signs of memory work [default: 10ms]
            canary_interval: Duration, "TIME", duration, "time";
            /// Page-fault latency of the canary above which memory stalls [default: 100ms]
            canary_limit: Duration, "TIME", duration, "time";
            /// Retention of recorded data [default: 60d]
            keep: Duration, "TIME", duration, "time";
            /// Size limit of the recording [default: 200M]
            max_size: u64, "SIZE", parse_size, "size";
        }
    };
}

pub(crate) use watch_settings;
