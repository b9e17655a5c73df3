//! Samples that are spread evenly, wherever they end.

/// The step from place to place is this share of all places, the golden ratio.
const STEP: f64 = 0.618_033_988_749_895;

/// All of `places` once, in an order whose beginnings are spread evenly.
pub(crate) fn spread(places: u64) -> impl Iterator<Item = u64> {
    let step = coprime_step(places);
    (0..places).map(move |index| {
        let place = u128::from(index) * u128::from(step) % u128::from(places.max(1));
        u64::try_from(place).unwrap_or(0)
    })
}

fn coprime_step(places: u64) -> u64 {
    let gcd = |mut a: u64, mut b: u64| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let start = ((places as f64 * STEP) as u64).max(1);
    (start..start.saturating_add(places)).find(|step| gcd(*step, places) == 1).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_comes_once_and_a_part_is_spread() {
        for places in [0, 1, 2, 12, 1000] {
            let mut all: Vec<u64> = spread(places).collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..places), "{places}");
        }
        let low = spread(1000).take(100).filter(|place| *place < 500).count();
        assert!((45..=55).contains(&low), "{low}");
    }
}
