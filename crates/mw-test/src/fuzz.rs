//! Fuzzing within bounds: inputs from a seed, each with a limit of memory and of CPU time.

use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::time::{Duration, Instant};

/// Duration, in seconds.
const SECONDS: &str = "MW_FUZZ_S";

/// The seed of the first input; the others follow.
const SEED: &str = "MW_FUZZ_SEED";

/// Limits of an input.
#[derive(Debug, Clone, Copy)]
pub struct FuzzLimits {
    /// Beyond what the process has before.
    pub bytes: u64,
    pub cpu: Duration,
}

/// Numbers at random, the same for the same seed (xorshift64*).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    #[must_use]
    pub fn new(seed: u64) -> Self {
        // Never zero, and far from that of the next seed.
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `limit`, or 0.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.number() >> 11).unwrap_or(0) % limit.max(1)
    }

    /// One of several.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// A number that is likely to be wrong somewhere: of a few bits, of all bits, or close to a power of two.
    pub fn odd_number(&mut self) -> u64 {
        let power = 1_u64 << self.below(64);
        match self.below(4) {
            0 => self.number() % 256,
            1 => self.number(),
            2 => power.wrapping_sub(1),
            _ => power,
        }
    }

    /// Changes some bytes.
    pub fn damage(&mut self, bytes: &mut [u8]) {
        if bytes.is_empty() {
            return;
        }
        for _ in 0..=self.below(8) {
            let at = self.below(bytes.len());
            let number = self.odd_number().to_be_bytes();
            let count = 1 << self.below(4);
            for (byte, new) in bytes[at..].iter_mut().zip(&number[8 - count..]) {
                *byte = *new;
            }
        }
    }
}

/// Has `read` read one input after the other, for `seconds` or as long as MW_FUZZ_S says.
///
/// # Panics
/// Where an input takes more than `limits`, or `read` panics; it says the seed.
pub fn fuzz(seconds: u64, limits: FuzzLimits, mut read: impl FnMut(&mut Random)) {
    let setting = |name| std::env::var(name).ok().map(|value| value.parse::<u64>().unwrap());
    let until = Instant::now() + Duration::from_secs(setting(SECONDS).unwrap_or(seconds));
    let first = setting(SEED).unwrap_or(1);
    let (mut most_bytes, mut most_cpu, mut seed) = ((0, 0), (Duration::ZERO, 0), first);
    while Instant::now() < until {
        let said = Seed(seed);
        let bytes_before = reset_peak_bytes();
        let cpu_before = process_time();
        read(&mut Random::new(seed));
        let cpu = process_time().saturating_sub(cpu_before);
        let bytes = peak_bytes().saturating_sub(bytes_before);
        most_bytes = most_bytes.max((bytes, seed));
        most_cpu = most_cpu.max((cpu, seed));
        assert!(bytes <= limits.bytes, "{bytes} bytes");
        assert!(cpu <= limits.cpu, "{cpu:?}");
        drop(said);
        seed += 1;
    }
    println!(
        "{} inputs; most memory: {} MiB (seed {}); most CPU time: {:?} (seed {})",
        seed - first,
        most_bytes.0 >> 20,
        most_bytes.1,
        most_cpu.0,
        most_cpu.1
    );
}

/// Says which input it was, where reading it panics.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("with {SEED}={} {SECONDS}=1", self.0);
        }
    }
}

/// Counts the most memory of this process anew (proc(5), clear_refs); what it has now.
fn reset_peak_bytes() -> u64 {
    fs::write("/proc/self/clear_refs", "5").unwrap();
    peak_bytes()
}

/// The most memory that this process has had. getrusage(2) counts that of the process that started it as well.
#[must_use]
pub fn peak_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim_end_matches("kB").trim().parse::<u64>().unwrap() << 10
}

fn process_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
}
