//! The list of all rules. No rule registers itself: what is not in this list does not exist.

use crate::accusation::Accusation;
use crate::awaited_peer::UNATTENDED;
use crate::forced_work::ForcedWork;
use crate::node_condition::NodeCondition::{
    self, HugePagesUnavailable, MemoryFragmented, MemoryStalling,
};
use crate::roles;
use crate::rules::*;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use Precedence::{Intermediate, LastResort, OutsideMemory, Symptom};
use mw_critical_path::TimeClass;
use mw_critical_path::kernel::FunctionSet;
use mw_model::{Cause, Consent, Finding, Missing, Role, Severity, Window};

/// A rule: everything about it that code outside its own file uses.
#[derive(Clone, Copy)]
pub struct Rule {
    /// Its id in kebab-case, named after the bad condition.
    pub id: &'static str,
    /// The source file, whose head is the page.
    source: &'static str,
    hazard: Option<FindHazard>,
    cause: Option<FindCause>,
    pub(crate) precedence: Precedence,
    pub(crate) culprits: FindCulprits,
    /// What a request spends its time on because of this cause. Where the critical path is known, only a rule that
    /// explains a part of it can be the cause; a cause may say itself how much it explains.
    pub(crate) explains: &'static [TimeClass],
    /// The same of a cause that says itself how much it explains.
    blamed: &'static [TimeClass],
    /// The evidence by which it has a culprit.
    pub(crate) accuses: Accusation,
    /// Kernel functions that stacks are recognized by, where no other rule needs them.
    pub(crate) functions: &'static [FunctionSet],
    /// Whether it can make a service fail at once, instead of making it slow.
    pub(crate) is_of_failures: bool,
    /// Whether every profile applies its remedy where it finds something.
    pub(crate) is_of_profiles: bool,
    /// Whether it names what stalls a service other than memory.
    is_outside_memory: bool,
    /// The condition of a Kubernetes node that it decides.
    pub(crate) condition: Option<NodeCondition>,
}

type FindHazard = fn(&Window) -> Result<Vec<Finding>, Missing>;

type FindCause = fn(&StallWindow<'_>) -> Result<Option<Suspect>, Missing>;

/// Names the tasks that brought a cause about.
type FindCulprits = fn(&StallWindow<'_>, &Cause) -> Vec<Role>;

/// How far a cause explains *why* memory was short, which decides between plausible causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precedence {
    /// Something stood still, and whoever needed it waited for that, for whatever reason it was needed.
    Standstill,
    /// It explains why memory was short.
    Root,
    /// It explains more than that memory was short, but has a cause of its own.
    Intermediate,
    /// It shows only that memory was short.
    Symptom,
    /// It names what else than memory a stall spent its time on: it precedes no cause of memory that explains as much, and
    /// is tried without a critical path only if no other rule has a plausible cause.
    OutsideMemory,
    /// The like, where nothing else is known.
    LastResort,
}

impl Precedence {
    pub(crate) fn is_outside_memory(self) -> bool {
        matches!(self, OutsideMemory | LastResort)
    }
}

macro_rules! rule {
    ($id:literal, $module:ident: $($finds:ident),+) => {
        Rule {
            $($finds: Some($module::$finds),)+
            ..Rule::new(
                $id,
                include_str!(concat!("rules/", stringify!($module), ".rs")),
            )
        }
    };
}

/// What others' writes make a request wait for.
const WRITING: &[TimeClass] = &[
    TimeClass::Reclaim,
    TimeClass::DirtyThrottling,
    TimeClass::Writeback,
    TimeClass::FileWrite,
    TimeClass::Journal,
    TimeClass::Disk,
    TimeClass::FileRead,
];

/// All rules, in the order of their ids. Unless a row says otherwise, its cause is a root cause and the
/// culprits are the tasks that allocated.
pub const RULES: &[Rule] = &[
    rule!("cgroup-limit", cgroup_limit: hazard, cause).blames(cgroup_limit::BY_LIMIT),
    rule!("cgroup-migration", cgroup_migration: cause)
        .by(roles::nobody)
        .shown_by(cgroup_migration::FUNCTIONS)
        .outside_memory(),
    rule!("cgroup-statistics", cgroup_statistics: cause)
        .by(roles::busy)
        .shown_by(cgroup_statistics::FUNCTIONS),
    rule!("cgroup-throttled", cgroup_throttled: cause).blames(cgroup_throttled::OF_LIMIT),
    rule!("contradictory-counters", contradictory_counters: hazard),
    rule!("cpu-contention", cpu_contention: cause)
        .ranks(OutsideMemory)
        .by(roles::busy)
        .explains(cpu_contention::READY)
        .outside_memory(),
    rule!("cpu-throttled", cpu_throttled: cause).explains(&[TimeClass::CpuQuota]).outside_memory(),
    rule!("device-memory-fault", device_memory_fault: cause).by(roles::nobody),
    rule!("dirty-limit-too-high", dirty_limit_too_high: hazard, cause)
        .of_profiles()
        .by(roles::writers)
        .explains(WRITING)
        .accuses(Accusation::Writers),
    rule!("dirty-throttle", dirty_throttle: hazard, cause)
        .ranks(Intermediate)
        .by(roles::writers)
        .explains(&[TimeClass::DirtyThrottling])
        .accuses(Accusation::Writers),
    rule!("disk-full", disk_full: cause)
        .by(roles::nobody)
        .of_failures()
        .outside_memory()
        .accuses(Accusation::Nobody),
    rule!("drop-caches", drop_caches: hazard, cause)
        .by(drop_caches::culprits)
        .explains(drop_caches::READS)
        .accuses(Accusation::Forced(ForcedWork::DropCaches)),
    rule!("exit-teardown", exit_teardown: cause).explains(&[TimeClass::Teardown]),
    rule!("file-limit", file_limit: cause)
        .by(roles::nobody)
        .of_failures()
        .outside_memory()
        .accuses(Accusation::Nobody),
    rule!("file-mapping-lock", file_mapping_lock: cause)
        .by(roles::nobody)
        .shown_by(file_mapping_lock::FUNCTIONS),
    rule!("file-server", file_server: cause)
        .ranks(OutsideMemory)
        .by(roles::nobody)
        .explains(file_server::ANSWER)
        .outside_memory()
        .accuses(Accusation::Nobody),
    rule!("forced-reclaim", forced_reclaim: cause)
        .by(forced_reclaim::culprits)
        .explains(forced_reclaim::AGAIN)
        .accuses(Accusation::Forced(ForcedWork::Reclaim)),
    rule!("fork-copy", fork_copy: cause).explains(&[TimeClass::Fork]),
    rule!("fragmented-node", fragmented_node: hazard, cause)
        .by(roles::compacting)
        .explains(&[TimeClass::Compaction])
        .of_condition(MemoryFragmented),
    rule!("frozen-cgroup", frozen_cgroup: cause)
        .ranks(OutsideMemory)
        .by(roles::nobody)
        .explains(frozen_cgroup::FROZEN)
        .outside_memory()
        .accuses(Accusation::Nobody),
    rule!("frozen-filesystem", frozen_filesystem: cause)
        .ranks(OutsideMemory)
        .by(roles::nobody)
        .explains(frozen_filesystem::FROZEN)
        .shown_by(frozen_filesystem::FUNCTIONS)
        .outside_memory()
        .accuses(Accusation::Nobody),
    rule!("fuse-server", fuse_server: cause)
        .ranks(OutsideMemory)
        .by(roles::nobody)
        .explains(fuse_server::ANSWER)
        .outside_memory()
        .accuses(Accusation::Nobody),
    rule!("garbage-collection", garbage_collection: cause)
        .ranks(OutsideMemory)
        .by(roles::nobody)
        .explains(service_itself::OWN)
        .outside_memory()
        .accuses(Accusation::Nobody),
    rule!("grown-daemon", grown_daemon: hazard),
    rule!("hardware-corrupted", hardware_corrupted: hazard),
    rule!("hugepage-hoard", hugepage_hoard: hazard, cause)
        .by(hugepage_hoard::culprits)
        .explains(hugepage_hoard::WITHOUT)
        .accuses(Accusation::Forced(ForcedWork::HugePages)),
    rule!("hugepage-shortage", hugepage_shortage: hazard, cause)
        .by(roles::compacting)
        .explains(&[TimeClass::Compaction])
        .of_condition(HugePagesUnavailable),
    rule!("hung-device", hung_device: cause)
        .by(roles::nobody)
        .ranks(Precedence::Standstill)
        .explains(hung_device::REQUESTS)
        .outside_memory()
        .accuses(Accusation::Device),
    rule!("hypervisor-steal", hypervisor_steal: cause)
        .ranks(OutsideMemory)
        .by(roles::nobody)
        .outside_memory()
        .accuses(Accusation::Hypervisor),
    rule!("io-limit", io_limit: cause)
        .ranks(OutsideMemory)
        .by(roles::nobody)
        .explains(io_limit::LIMITED)
        .outside_memory(),
    rule!("journal-commit", journal_commit: cause)
        .ranks(Intermediate)
        .by(roles::wrote)
        .explains(&[TimeClass::Journal, TimeClass::FileWrite])
        .outside_memory()
        .accuses(Accusation::Writers),
    rule!("kernel-limit", kernel_limit: hazard),
    rule!("kernel-zone-exhausted", kernel_zone_exhausted: hazard),
    rule!("khugepaged-churn", khugepaged_churn: hazard, cause)
        .by(roles::compacting)
        .explains(&[TimeClass::AddressSpace, TimeClass::Compaction])
        .accuses(Accusation::Kernel),
    rule!("ksm-scan", ksm_scan: cause)
        .by(roles::busy)
        .shown_by(ksm_scan::FUNCTIONS)
        .accuses(Accusation::Kernel),
    rule!("kswapd-gave-up", kswapd_gave_up: cause)
        .ranks(Intermediate)
        .explains(&[TimeClass::Reclaim])
        .accuses(Accusation::Takers),
    rule!("listen-queue-full", listen_queue_full: cause)
        .ranks(OutsideMemory)
        .by(roles::nobody)
        .explains(listen_queue_full::PEER)
        .outside_memory()
        .accuses(Accusation::Nobody),
    rule!("lock-wait", lock_wait: cause)
        .by(roles::nobody)
        .blames(lock_wait::HOLDING)
        .outside_memory(),
    rule!("map-count-limit", map_count_limit: hazard),
    rule!("memlock-limit", memlock_limit: hazard),
    rule!("memory-balloon", memory_balloon: hazard),
    rule!("memory-exhausted", memory_exhausted: hazard),
    rule!("mempool-wait", mempool_wait: cause).shown_by(mempool_wait::FUNCTIONS),
    rule!("min-free-too-high", min_free_too_high: hazard, cause)
        .explains(&[TimeClass::Reclaim])
        .of_profiles()
        .accuses(Accusation::Kernel),
    rule!("min-free-too-low", min_free_too_low: hazard, cause)
        .explains(&[TimeClass::Reclaim])
        .of_profiles(),
    rule!("mmap-lock", mmap_lock: cause).explains(&[TimeClass::AddressSpace]),
    rule!("network-loss", network_loss: cause)
        .ranks(OutsideMemory)
        .by(roles::nobody)
        .outside_memory()
        .accuses(Accusation::Nobody),
    rule!("network-or-service", network_or_service: cause)
        .ranks(LastResort)
        .by(roles::nobody)
        .explains(network_or_service::UNSEEN)
        .outside_memory()
        .accuses(Accusation::Nobody),
    rule!("network-wait", network_wait: cause)
        .ranks(OutsideMemory)
        .by(roles::nobody)
        .explains(UNATTENDED)
        .outside_memory()
        .accuses(Accusation::Nobody),
    rule!("numa-balancing", numa_balancing: cause)
        .explains(&[TimeClass::NumaBalancing])
        .accuses(Accusation::Kernel),
    rule!("numa-node-exhausted", numa_node_exhausted: hazard, cause)
        .explains(&[TimeClass::Reclaim])
        .accuses(Accusation::Takers),
    rule!("offline-memory", offline_memory: hazard),
    rule!("oom-kill", oom_kill: hazard, cause)
        .ranks(Intermediate)
        .by(oom_kill::culprits)
        .explains(&[TimeClass::CgroupReclaim, TimeClass::Reclaim])
        .of_failures()
        .accuses(Accusation::Takers),
    rule!("overcommit-refusal", overcommit_refusal: hazard, cause).of_failures(),
    rule!("page-cache-compaction", page_cache_compaction: cause)
        .by(roles::compacting)
        .shown_by(page_cache_compaction::FUNCTIONS),
    rule!("page-cache-flood", page_cache_flood: hazard, cause)
        .by(roles::writers)
        .explains(WRITING)
        .of_condition(MemoryStalling)
        .accuses(Accusation::Writers),
    rule!("page-list-drain", page_list_drain: cause)
        .by(roles::busy)
        .shown_by(page_list_drain::FUNCTIONS)
        .outside_memory(),
    rule!("page-table-bloat", page_table_bloat: hazard),
    rule!("pinned-memory", pinned_memory: hazard),
    rule!("proactive-compaction", proactive_compaction: cause)
        .by(proactive_compaction::culprits)
        .explains(proactive_compaction::MOVED)
        .accuses(Accusation::Forced(ForcedWork::Compaction)),
    rule!("protected-memory", protected_memory: hazard),
    rule!("range-migration", range_migration: cause)
        .by(roles::nobody)
        .shown_by(range_migration::FUNCTIONS),
    rule!("reclaim-storm", reclaim_storm: hazard, cause)
        .ranks(Symptom)
        .explains(&[TimeClass::Reclaim])
        .of_condition(MemoryStalling)
        .accuses(Accusation::Takers),
    rule!("recorder-itself", recorder_itself: cause)
        .ranks(OutsideMemory)
        .by(roles::nobody)
        .blames(recorder_itself::OWN)
        .outside_memory(),
    rule!("service-failure", service_failure: cause)
        .ranks(LastResort)
        .by(roles::nobody)
        .of_failures()
        .outside_memory()
        .accuses(Accusation::Nobody),
    rule!("service-itself", service_itself: cause)
        .ranks(OutsideMemory)
        .by(roles::nobody)
        .explains(service_itself::OWN)
        .outside_memory()
        .accuses(Accusation::Nobody),
    rule!("shm-limit", shm_limit: hazard),
    rule!("shrinker-lock", shrinker_lock: cause)
        .by(roles::nobody)
        .shown_by(shrinker_lock::FUNCTIONS),
    rule!("slab-bloat", slab_bloat: hazard, cause).explains(&[TimeClass::Reclaim]),
    rule!("slow-dependency", slow_dependency: cause)
        .ranks(OutsideMemory)
        .by(roles::nobody)
        .explains(service_itself::OWN)
        .outside_memory()
        .accuses(Accusation::Dependency),
    rule!("slow-disk", slow_disk: cause)
        .ranks(OutsideMemory)
        .by(roles::wrote)
        .explains(slow_disk::COMPLETIONS)
        .outside_memory()
        .accuses(Accusation::Disk),
    rule!("slow-population", slow_population: cause).explains(&[TimeClass::Population]),
    rule!("stopped-process", stopped_process: cause)
        .ranks(OutsideMemory)
        .by(roles::stopped)
        .blames(stopped_process::STOPPED)
        .outside_memory()
        .accuses(Accusation::Nobody),
    rule!("swap-thrash", swap_thrash: hazard, cause)
        .explains(&[TimeClass::SwapIn, TimeClass::Reclaim])
        .of_condition(MemoryStalling)
        .accuses(Accusation::Takers),
    rule!("sync-of-all", sync_of_all: cause)
        .by(roles::wrote)
        .shown_by(sync_of_all::FUNCTIONS)
        .outside_memory(),
    rule!("task-limit", task_limit: cause)
        .by(roles::nobody)
        .of_failures()
        .outside_memory()
        .accuses(Accusation::Nobody),
    rule!("thp-compaction", thp_compaction: hazard, cause)
        .by(roles::compacting)
        .explains(&[TimeClass::Compaction]),
    rule!("tmpfs-full", tmpfs_full: hazard, cause).of_failures(),
    rule!("uneven-nodes", uneven_nodes: hazard),
    rule!("unowned-memory", unowned_memory: hazard),
    rule!("unreclaimable-ramfs", unreclaimable_ramfs: hazard, cause)
        .explains(&[TimeClass::Reclaim]),
    rule!("watermark-boost", watermark_boost: cause)
        .explains(watermark_boost::HURT)
        .accuses(Accusation::Kernel),
    rule!("working-set-thrash", working_set_thrash: hazard, cause)
        .of_condition(MemoryStalling)
        .blames(working_set_thrash::AGAIN)
        .accuses(Accusation::Takers),
    rule!("zfs-arc", zfs_arc: hazard),
    rule!("zone-reclaim", zone_reclaim: hazard, cause)
        .explains(&[TimeClass::Reclaim])
        .accuses(Accusation::Kernel),
    rule!("zram-pressure", zram_pressure: hazard),
];

/// The rule of incidents that the OOM killer is the subject of.
pub(crate) fn of_oom_kills() -> &'static [Rule] {
    let place = RULES.iter().position(|rule| rule.id == "oom-kill");
    place.and_then(|place| RULES.get(place..=place)).unwrap_or_default()
}

/// True if the rule of this id shows only that memory is short.
pub(crate) fn is_of_symptom(id: &str) -> bool {
    find(id).is_some_and(|rule| rule.precedence == Symptom)
}

/// The rule of this id.
pub fn find(id: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.id == id)
}

/// A process, cgroup or mount at its own limit stalls itself. Any user can bring that about, so that it is not critical
/// for the machine, and no setting of the machine is changed for it unless the rule is named.
fn limit_to_its_subject(finding: &mut Finding) {
    finding.severity = finding.severity.min(Severity::Warning);
    if let Some(remedy) = &mut finding.remedy {
        remedy.consent = Consent::Named;
    }
}

impl Rule {
    const fn new(id: &'static str, source: &'static str) -> Self {
        Self {
            id,
            source,
            hazard: None,
            cause: None,
            precedence: Precedence::Root,
            culprits: roles::allocating,
            explains: &[],
            blamed: &[],
            accuses: Accusation::ByPath,
            functions: &[],
            is_of_failures: false,
            is_of_profiles: false,
            is_outside_memory: false,
            condition: None,
        }
    }

    const fn ranks(self, precedence: Precedence) -> Self {
        Self { precedence, ..self }
    }

    const fn by(self, culprits: FindCulprits) -> Self {
        Self { culprits, ..self }
    }

    const fn explains(self, explains: &'static [TimeClass]) -> Self {
        Self { explains, ..self }
    }

    /// Has its time for which somebody is to blame, where that is not what it explains.
    const fn blames(self, blamed: &'static [TimeClass]) -> Self {
        Self { blamed, ..self }
    }

    const fn accuses(self, accuses: Accusation) -> Self {
        Self { accuses, ..self }
    }

    /// Classes of time for which it has somebody to blame.
    pub(crate) fn blamed(&self) -> &'static [TimeClass] {
        if self.blamed.is_empty() { self.explains } else { self.blamed }
    }

    const fn shown_by(self, functions: &'static [FunctionSet]) -> Self {
        Self { functions, ..self }
    }

    const fn of_failures(self) -> Self {
        Self { is_of_failures: true, ..self }
    }

    const fn of_profiles(self) -> Self {
        Self { is_of_profiles: true, ..self }
    }

    const fn outside_memory(self) -> Self {
        Self { is_outside_memory: true, ..self }
    }

    const fn of_condition(self, condition: NodeCondition) -> Self {
        Self { condition: Some(condition), ..self }
    }

    /// Whether it finds a hazard: a condition that is visible before anything stalls.
    pub fn has_hazard(&self) -> bool {
        self.hazard.is_some()
    }

    /// Whether memory is the matter with what it finds.
    pub fn is_of_memory(&self) -> bool {
        !self.is_outside_memory
    }

    /// Whether it explains stalls.
    pub fn has_cause(&self) -> bool {
        self.cause.is_some()
    }

    /// The id as one word, as the reasons of Kubernetes and the names of alerts are spelt: `ReclaimStorm`.
    pub fn camel_case(&self) -> String {
        let word =
            |word: &str| word.get(..1).unwrap_or("").to_uppercase() + word.get(1..).unwrap_or("");
        self.id.split('-').map(word).collect()
    }

    /// Finds the hazard; a rule without one finds nothing.
    ///
    /// # Errors
    /// Data that the rule needs could not be read, and why.
    pub fn hazard(&self, window: &Window) -> Result<Vec<Finding>, Missing> {
        let Some(hazard) = self.hazard else { return Ok(Vec::new()) };
        let mut findings = hazard(window)?;
        for finding in &mut findings {
            self.id.clone_into(&mut finding.rule);
            if !finding.subject.is_machine() {
                limit_to_its_subject(finding);
            }
        }
        Ok(findings)
    }

    /// Explains a stall; a rule without a cause does not.
    ///
    /// # Errors
    /// Data that the rule needs could not be read, and why.
    pub(crate) fn cause(&self, stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
        let Some(cause) = self.cause else { return Ok(None) };
        let mut found = cause(stall)?;
        if let Some(cause) = &mut found {
            self.id.clone_into(&mut cause.finding.rule);
        }
        Ok(found)
    }

    /// The rule's page in Markdown: what it finds, why it hurts, what it looks like, its threshold,
    /// how to fix it, references.
    pub fn page(&self) -> String {
        self.source
            .lines()
            .map_while(|line| line.strip_prefix("//!"))
            .flat_map(|line| [line.strip_prefix(' ').unwrap_or(line), "\n"])
            .collect()
    }

    /// The page's first sentence.
    pub fn summary(&self) -> String {
        let page = self.page();
        let lines = page.lines().skip(1).skip_while(|line| line.is_empty());
        lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
    }
}
