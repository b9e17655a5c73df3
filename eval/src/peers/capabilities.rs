//! What each method can do besides, from its manual and source.

/// A method: how it shares the work, cancelled, partial, NUMA, lock, destroyed in parallel.
type Capabilities = [&'static str; 7];

const ABILITIES: &[Capabilities] = &[
    [
        "memset, mlock(2)",
        "one thread",
        "no",
        "keeps what it has",
        "by the caller's policy",
        "mlock(2)",
        "no",
    ],
    [
        "`mlockall`",
        "one thread, in every mmap(2)",
        "by a fatal signal",
        "keeps what it has",
        "by the caller's policy",
        "all of the process",
        "no",
    ],
    [
        "QEMU `prealloc`",
        "an equal share for each thread",
        "no",
        "ends with an error",
        "`host-nodes`, `policy`; CPUs by `prealloc-context`",
        "`-overcommit mem-lock=on`, all of the process",
        "no",
    ],
    [
        "OpenJDK `AlwaysPreTouch`",
        "serial: one thread; G1 and parallel: chunks",
        "no",
        "no: the kernel may kill it",
        "`-XX:+UseNUMA`",
        "no",
        "no",
    ],
    [
        "libhugetlbfs",
        "nothing: the program touches its pages",
        "no",
        "fails, or falls back to base pages",
        "by the caller's policy",
        "pages of a pool need none",
        "no",
    ],
    [
        "`vmtouch -l`",
        "one thread, file by file",
        "by a signal",
        "ends with an error",
        "no",
        "mlock(2), as long as it runs",
        "no",
    ],
    [
        "DPDK",
        "one thread, page by page",
        "no",
        "ends with an error",
        "`--numa-mem`",
        "pages of a pool need none; `--no-huge`: mlockall by the program",
        "no",
    ],
    [
        "cloud-hypervisor `prefault=on`",
        "an equal share for each thread",
        "no",
        "ends with an error",
        "`host_numa_node`",
        "no",
        "no",
    ],
    [
        "**memwright**",
        "chunks from one cursor",
        "within a chunk",
        "fails before memory is short; nothing is left",
        "any policy, also by ranges; workers on the nodes",
        "each segment",
        "yes",
    ],
];

pub(super) fn text() -> String {
    let mut text = String::from(
        "| | work is split into | can be cancelled | too little memory | NUMA | lock | destroys in parallel |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for row in ABILITIES {
        text += &format!("| {} |\n", row.join(" | "));
    }
    text
}
