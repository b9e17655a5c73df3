//! Requests to vmalloc that failed, by the words of mm/vmalloc.c.

/// A request to vmalloc that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VmallocRequest {
    pub(crate) bytes: u64,
    pub(crate) failed_at: VmallocStep,
}

/// The step at which a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VmallocStep {
    /// No room in the range of addresses. Up to 5.12 in the same words: more than all memory.
    Addresses,
    /// More than all memory.
    Size,
    /// No pages.
    Pages,
}

/// More than a 64-bit kernel has addresses for: a size that was computed wrongly.
const MOST_BYTES: u64 = 1 << 47;

/// Functions that allocate in the range of modules, which compiled BPF programs are in as well: kernel/module, and from
/// 6.10 on mm/execmem.c.
const OF_MODULES: [&str; 4] =
    ["module_alloc", "bpf_jit_alloc_exec", "bpf_jit_binary_alloc", "execmem_alloc"];

impl VmallocRequest {
    /// Reads `vmalloc: allocation failure: 12 bytes`, `vmalloc error: size 12, …`, `vmap allocation for size 12 failed`;
    /// returns also the words before. 2.6.38 to 5.11 say how many of the pages were allocated; 5.12 began with the size.
    pub(crate) fn parse(line: &str) -> Option<(Self, &str)> {
        // With the number of numbers before the size: `allocated 4096 of 8192 bytes`.
        const MARKS: [(&str, VmallocStep, usize); 5] = [
            ("vmalloc: allocation failure, allocated ", VmallocStep::Pages, 1),
            ("vmalloc: allocation failure: ", VmallocStep::Addresses, 0),
            ("vmap allocation for size ", VmallocStep::Addresses, 0),
            ("vmalloc error: size ", VmallocStep::Pages, 0),
            ("vmalloc size ", VmallocStep::Pages, 0),
        ];
        let (before, after, step, at) = MARKS.iter().find_map(|(mark, step, at)| {
            let (before, after) = line.split_once(mark)?;
            Some((before, after, *step, *at))
        })?;
        let failed_at = if after.contains("vm_struct allocation failed") {
            VmallocStep::Addresses
        } else if after.contains("exceeds total pages") {
            VmallocStep::Size
        } else {
            step
        };
        let mut numbers =
            after.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
        let bytes = numbers.nth(at)?.parse().ok()?;
        Some((Self { bytes, failed_at }, before))
    }

    /// True of a size that a machine with so much memory cannot serve at all. `memory_bytes` is 0 where it is unknown.
    pub(crate) fn is_beyond(&self, memory_bytes: u64) -> bool {
        self.is_absurd()
            || self.failed_at == VmallocStep::Size
            || memory_bytes > 0 && self.bytes > memory_bytes
    }

    /// True of a size that no machine can serve. A request for nothing fails as well.
    pub(crate) fn is_absurd(&self) -> bool {
        self.bytes >= MOST_BYTES || self.bytes == 0
    }
}

/// True if a call trace asks for addresses of modules.
pub(crate) fn is_of_modules(trace: &[String]) -> bool {
    trace.iter().any(|function| OF_MODULES.contains(&function.as_str()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn each_version_says_at_which_step_it_failed() {
        for (line, bytes, step) in [
            ("vmalloc: allocation failure: 12288 bytes, mode:0xcc0", 12288, VmallocStep::Addresses),
            ("vmalloc: allocation failure, allocated 4096 of 8192 bytes", 8192, VmallocStep::Pages),
            (
                "a: vmalloc error: size 16777216, page order 0, failed to allocate pages",
                16 << 20,
                VmallocStep::Pages,
            ),
            (
                "a: vmalloc error: size 8192, vm_struct allocation failed",
                8192,
                VmallocStep::Addresses,
            ),
            ("a: vmalloc error: size 8192, exceeds total pages", 8192, VmallocStep::Size),
            (
                "a: vmalloc size 8192 allocation failure: vm_struct allocation failed",
                8192,
                VmallocStep::Addresses,
            ),
            (
                "vmap allocation for size 4198400 failed: use vmalloc=<size>",
                4_198_400,
                VmallocStep::Addresses,
            ),
        ] {
            let (request, _) = VmallocRequest::parse(line).unwrap();
            assert_eq!((request.bytes, request.failed_at), (bytes, step), "{line}");
        }
        assert_eq!(VmallocRequest::parse("vmalloc: allocation failure: many"), None);
    }

    #[test]
    fn a_size_is_beyond_a_machine_that_has_less() {
        let request = |bytes| VmallocRequest { bytes, failed_at: VmallocStep::Addresses };
        assert!(request(3 << 30).is_beyond(2 << 30));
        assert!(!request(1 << 30).is_beyond(2 << 30));
        assert!(!request(1 << 30).is_beyond(0));
        assert!(request(18_446_743_833_813_787_648).is_absurd());
    }
}
