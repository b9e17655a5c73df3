//! How long attaching locked memory of a warm pool takes, by size.

use super::server::PoolServer;
use crate::workspace::go_on;
use anyhow::Context;
use mw_test::measure::median;
use std::path::Path;
use std::time::Instant;

const GIB: u64 = 1 << 30;
const ROUNDS: usize = 15;
/// The sizes that a fit needs.
const MIN_SIZES: usize = 3;
/// Memory that stays free beside the pool.
const RESERVE_BYTES: u64 = 5 * GIB;
/// The largest pool.
const MAX_GIB: u64 = 16;
pub(super) const EXTRAPOLATED_GIB: f64 = 1024.0;

/// Measurements of pages of one size.
pub(super) struct Pages {
    pub(super) page: &'static str,
    /// Size in GiB, and the times in ms.
    pub(super) sizes: Vec<(u64, Vec<f64>)>,
    pub(super) missing: Option<String>,
}

impl Pages {
    /// Least squares of the medians: ms, and ms for each GiB.
    pub(super) fn fit(&self) -> Option<(f64, f64)> {
        let medians = self.sizes.iter().map(|(gib, times)| (*gib as f64, median(times.clone())));
        line(&medians.collect::<Vec<_>>())
    }
}

/// Pages of both sizes.
pub(super) struct Attaching(pub(super) Vec<Pages>);

pub(super) fn measure(memwright: &Path) -> anyhow::Result<Attaching> {
    let sizes = [("2M", 2 << 20), ("1G", GIB)];
    let measured: anyhow::Result<Vec<Pages>> =
        sizes.into_iter().map(|(name, bytes)| pages(memwright, name, bytes)).collect();
    measured.map(Attaching)
}

fn pages(memwright: &Path, page: &'static str, page_bytes: u64) -> anyhow::Result<Pages> {
    let available = mw_segment::available_bytes().context("available memory is not known")?;
    let most = (available.saturating_sub(RESERVE_BYTES) / GIB).min(MAX_GIB);
    let sizes = std::iter::successors(Some(1), |gib| Some(gib * 2)).take_while(|gib| *gib <= most);
    let sizes: Vec<u64> = sizes.collect();
    // Whole GiB are hard to find: the largest pool that the kernel gives.
    let mut missing = "too little memory".to_owned();
    for count in (MIN_SIZES..=sizes.len()).rev() {
        match PoolServer::start(memwright, page_bytes, sizes[count - 1] * GIB) {
            Ok(server) => {
                let sizes = times(&server, &sizes[..count])?;
                return Ok(Pages { page, sizes, missing: None });
            }
            Err(error) => missing = format!("{error:#}"),
        }
    }
    Ok(Pages { page, sizes: Vec::new(), missing: Some(missing) })
}

fn times(server: &PoolServer, sizes: &[u64]) -> anyhow::Result<Vec<(u64, Vec<f64>)>> {
    let mut times: Vec<(u64, Vec<f64>)> = sizes.iter().map(|gib| (*gib, Vec::new())).collect();
    // The first round does not count.
    for round in 0..=ROUNDS {
        for (gib, times) in &mut times {
            go_on()?;
            let begun = Instant::now();
            let memory = server.attach(*gib * GIB)?;
            let took = begun.elapsed();
            drop(memory);
            server.until_ready()?;
            if round > 0 {
                times.push(took.as_secs_f64() * 1000.0);
            }
        }
    }
    Ok(times)
}

/// The line through points by least squares: its value at 0 and its slope.
fn line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let square: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    let product: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    (square > 0.0).then(|| (y - x * product / square, product / square))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_through_its_points() {
        let (start, slope) = line(&[(1.0, 2.5), (2.0, 4.5), (4.0, 8.5)]).unwrap();
        assert!((start - 0.5).abs() < 1e-9 && (slope - 2.0).abs() < 1e-9);
        assert_eq!(line(&[(1.0, 2.0)]), None);
    }
}
