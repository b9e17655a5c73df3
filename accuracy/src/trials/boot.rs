//! Where plays happen, and what all of one boot share.

use super::random::TrialRandom;
use serde::{Deserialize, Serialize};

/// Plays of one boot.
pub(super) const PLAYS_A_BOOT: u32 = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum TrialService {
    App,
    Nginx,
    #[serde(rename = "pg")]
    Postgres,
    Mysql,
    Redis,
    Java,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum TrialCgroup {
    V1,
    V2,
    /// The memory controller is on version 1, and the others are on version 2.
    Hybrid,
}

/// Place of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum TrialHost {
    Guest,
    /// At native speed, in cgroups of this machine.
    Host,
}

/// Settings that all runs of a boot share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Boot {
    pub(super) place: TrialHost,
    /// The series; on the host, its name.
    pub(super) kernel: String,
    pub(super) cgroup: TrialCgroup,
    pub(super) memory_mib: u64,
    pub(super) services: Vec<TrialService>,
    /// Speed of the data disk, in kB/s.
    pub(super) read_kbps: u64,
    pub(super) write_kbps: u64,
    pub(super) swap_kbps: u64,
    /// Resources of a request of the small HTTP server: pages of a file, of anonymous memory, syncs, CPU time.
    pub(super) app_reads: u64,
    pub(super) app_touches: u64,
    pub(super) app_syncs: u64,
    pub(super) app_spin_us: u64,
    pub(super) file_mib: u64,
    pub(super) anon_mib: u64,
    /// Rows that a query reads.
    pub(super) rows: u64,
    pub(super) mysql_writes: bool,
    pub(super) redis_appends: bool,
}

impl TrialService {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::App => "app",
            Self::Nginx => "nginx",
            Self::Postgres => "pg",
            Self::Mysql => "mysql",
            Self::Redis => "redis",
            Self::Java => "java",
        }
    }
}

impl TrialCgroup {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V2 => "v2",
            Self::Hybrid => "hybrid",
        }
    }

    /// Of this machine.
    pub(super) fn of_host() -> Self {
        let has_cpu = |path| {
            std::fs::read_to_string(path)
                .is_ok_and(|text: String| text.split_whitespace().any(|name| name == "cpu"))
        };
        match (
            has_cpu("/sys/fs/cgroup/cgroup.controllers"),
            has_cpu("/sys/fs/cgroup/unified/cgroup.controllers"),
        ) {
            (true, _) => Self::V2,
            (false, true) => Self::Hybrid,
            (false, false) => Self::V1,
        }
    }
}

impl Boot {
    /// The boot of a play.
    pub(super) fn of(place: TrialHost, seed: u64, index: u32) -> Self {
        use TrialService::{App, Java, Mysql, Nginx, Postgres, Redis};
        const SETS: &[&[TrialService]] = &[
            &[App, Redis],
            &[Postgres, App],
            &[Mysql, App, Nginx],
            &[App, Nginx, Postgres],
            &[Java, App],
            &[Redis, Mysql],
            &[Redis, App, Nginx],
            &[Postgres, Redis],
        ];
        // Debian's 6.12 has no memory controller of version 1.
        const MACHINES: &[(&str, TrialCgroup)] = &[
            ("6.1", TrialCgroup::V2),
            ("6.12", TrialCgroup::V2),
            ("6.12", TrialCgroup::V2),
            ("6.1", TrialCgroup::V1),
        ];
        const HOST: &[(&str, TrialCgroup)] = &[("host", TrialCgroup::V1)];
        let mut random = TrialRandom::new(&[seed, u64::from(index / PLAYS_A_BOOT), 1]);
        let is_host = place == TrialHost::Host;
        let (kernel, cgroup) = *random.one_of(if is_host { HOST } else { MACHINES });
        // At native speed the same work is nothing.
        let speed = if is_host { 4 } else { 1 };
        Self {
            place,
            kernel: kernel.to_owned(),
            cgroup,
            memory_mib: *random.one_of(&[768, 1024, 1536]),
            services: random.one_of(SETS).to_vec(),
            read_kbps: random.within(20_000..=100_000),
            write_kbps: random.within(4_000..=20_000),
            swap_kbps: random.within(4_000..=30_000),
            app_reads: random.within(100..=600) * speed,
            app_touches: random.within(200..=1500),
            app_syncs: u64::from(random.percent(70)),
            app_spin_us: random.within(0..=5000) * speed,
            file_mib: random.within(64..=96),
            anon_mib: random.within(48..=96),
            rows: random.within(100..=300) * speed,
            mysql_writes: random.percent(50),
            redis_appends: random.percent(60),
        }
    }

    /// True if the service's requests write and sync.
    pub(super) fn syncs(&self, service: TrialService) -> bool {
        match service {
            TrialService::App | TrialService::Nginx => self.app_syncs > 0,
            TrialService::Postgres => true,
            TrialService::Mysql => self.mysql_writes,
            TrialService::Redis => self.redis_appends,
            TrialService::Java => false,
        }
    }
}
