//! The logistic distribution: the middle of a normal one, with heavier tails for amounts that formulas miss now and then.

/// Scale of a logistic distribution whose standard deviation is 1: the root of 3 over pi.
pub const SCALE: f64 = 0.551_328_895_421_792_1;

/// From here on what is left of the curve is less than the last digit of 1.
const WHOLE: f64 = 37.0;

/// The probability to be at most `x`, of scale 1.
pub fn curve(x: f64) -> f64 {
    match x > WHOLE {
        true => 1.0,
        false => 1.0 / (1.0 + (-x).exp()),
    }
}

/// The density at `x`, of scale 1, over that in the middle.
pub fn bell(x: f64) -> f64 {
    let tail = (-x.abs()).exp();
    4.0 * tail / ((1.0 + tail) * (1.0 + tail))
}

/// The probability that an amount of bytes around `middle`, with a standard deviation, is at most `total`.
pub fn within(total: f64, middle: f64, deviation: f64) -> f64 {
    curve((total - middle) / (deviation * SCALE).max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_is_the_sum_of_the_bell_and_has_the_standard_deviation_that_it_should() {
        let step = 1e-3;
        let (mut sum, mut square) = (0.0, 0.0);
        for i in -20_000..20_000 {
            let x = step * f64::from(i);
            let part = bell(x / SCALE) / (4.0 * SCALE) * step;
            sum += part;
            square += part * x * x;
            if i % 4_000 == 0 {
                assert!((sum - curve(x / SCALE)).abs() < 2e-3, "{x}: {sum}");
            }
        }
        assert!((square - 1.0).abs() < 1e-3, "{square}");
    }

    #[test]
    fn the_end_of_the_curve_is_as_by_its_formula() {
        for x in [WHOLE.next_down(), WHOLE.next_up(), 38.0, 700.0] {
            assert_eq!(
                curve(x).to_bits(),
                (1.0 / (1.0 + (-x).exp())).to_bits(),
                "{x}"
            );
        }
    }

    #[test]
    fn half_of_all_is_below_the_middle_and_no_deviation_decides() {
        assert!((within(5e9, 5e9, 1e9) - 0.5).abs() < 1e-12);
        assert!(within(6e9, 5e9, 1e9) > 0.8 && within(4e9, 5e9, 1e9) < 0.2);
        assert!(within(6e9, 5e9, 0.0) > 0.999 && within(4e9, 5e9, 0.0) < 0.001);
    }
}
