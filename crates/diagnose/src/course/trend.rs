//! Trend and outlier in a short series, by robust tests that assume no distribution.

/// A point of a series: step and value.
pub(super) type TrendPoint = (f64, f64);

/// Points below which nothing is said: fewer give the normal approximation of the test no hold.
const POINTS_MIN: usize = 12;
/// Standard normal quantile of p = 0.001, one-sided: the test is asked again at every step.
const SURE: f64 = 3.09;
/// Largest autocorrelation that is corrected for.
const ALIKE_MAX: f64 = 0.8;
/// Share of the slope that each half of the series must have by itself: what levels off is no trend.
const HALF: f64 = 0.25;
/// Rises behind the middle of a series that never falls, and their share of its points there.
const RECORDS_MIN: usize = 5;
const RECORDS_SHARE: usize = 4;
/// Modified z-score of an outlier (Iglewicz and Hoaglin 1993, as R's OncReg and others cite it), and the factor that makes the MAD a standard deviation.
const Z_OUTLIER: f64 = 3.5;
const MAD_FACTOR: f64 = 0.6745;
/// Least spread, as a share of the median: a series of one value has none.
const SPREAD_MIN: f64 = 0.01;

/// The Theil-Sen slope of a series that rises; `None` where it does not, or where it is too short to tell.
pub(super) fn rising(points: &[TrendPoint]) -> Option<f64> {
    if points.len() < POINTS_MIN || mann_kendall(points) < SURE {
        return None;
    }
    let slope = theil_sen(points)?;
    if mann_kendall(points) / inflation(points, slope).sqrt() < SURE {
        return None;
    }
    let (first, second) = points.split_at(points.len() / 2);
    let held = |half: &[TrendPoint]| theil_sen(half).is_some_and(|s| s >= HALF * slope);
    let new = !never_falls(points) || breaks_records(second);
    (slope > 0.0 && new && held(first) && held(second)).then_some(slope)
}

/// How much wider the test's statistic spreads where neighbours are alike: (1 + r) / (1 - r) for the lag-1 autocorrelation of
/// what the slope leaves. R's `modifiedmk::mmky1lag` corrects so, after Yue and Wang (2004).
fn inflation(points: &[TrendPoint], slope: f64) -> f64 {
    let rest: Vec<f64> = points.iter().map(|p| p.1 - slope * p.0).collect();
    let mean = rest.iter().sum::<f64>() / count(rest.len());
    let both: f64 = rest.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum();
    let one: f64 = rest.iter().map(|v| (v - mean).powi(2)).sum();
    let r = if one > 0.0 {
        (both / one).clamp(0.0, ALIKE_MAX)
    } else {
        0.0
    };
    (1.0 + r) / (1.0 - r)
}

/// Is it the running maximum of something, as far as can be seen?
pub(super) fn never_falls(points: &[TrendPoint]) -> bool {
    points.windows(2).all(|two| two[0].1 <= two[1].1)
}

/// Whether a running maximum rises for another reason than noise. Of independent draws the n-th is a record with
/// probability 1/n, so the second half of a series holds ln 2 of them on average, however long it is.
fn breaks_records(half: &[TrendPoint]) -> bool {
    let rises = half.windows(2).filter(|two| two[0].1 < two[1].1).count();
    rises
        >= RECORDS_MIN
            .max(half.len() / RECORDS_SHARE)
            .min(half.len() - 1)
}

/// The statistic of the Mann-Kendall trend test, standard normal where there is no trend; variance with ties and
/// continuity correction as in R's `trend::mk.test`.
fn mann_kendall(points: &[TrendPoint]) -> f64 {
    let s: f64 = pairs(points).map(|(a, b)| sign(b.1 - a.1)).sum();
    let spread = |n: f64| n * (n - 1.0) * (2.0 * n + 5.0);
    let mut values: Vec<f64> = points.iter().map(|p| p.1).collect();
    values.sort_by(f64::total_cmp);
    let groups = values.chunk_by(|a, b| sign(b - a) == 0.0);
    let ties: f64 = groups.map(|group| spread(count(group.len()))).sum();
    let variance = (spread(count(points.len())) - ties) / 18.0;
    match variance > 0.0 {
        true => sign(s) * (s.abs() - 1.0) / variance.sqrt(),
        false => 0.0,
    }
}

/// The median of the slopes of all pairs.
fn theil_sen(points: &[TrendPoint]) -> Option<f64> {
    let slopes = pairs(points).filter(|(a, b)| b.0 > a.0);
    median(slopes.map(|(a, b)| (b.1 - a.1) / (b.0 - a.0)).collect())
}

/// Kendall's partial rank correlation of two series over the same steps, the step held fixed.
pub(super) fn partial(a: &[TrendPoint], b: &[TrendPoint]) -> f64 {
    let values = |of: &[TrendPoint]| of.iter().map(|p| p.1).collect::<Vec<_>>();
    let steps: Vec<f64> = a.iter().map(|p| p.0).collect();
    let (a, b) = (values(a), values(b));
    let (with, of_a, of_b) = (tau(&a, &b), tau(&a, &steps), tau(&b, &steps));
    let rest = ((1.0 - of_a * of_a) * (1.0 - of_b * of_b)).sqrt();
    match rest > 0.0 {
        true => (with - of_a * of_b) / rest,
        false => 0.0,
    }
}

/// Kendall's rank correlation (tau-b).
fn tau(a: &[f64], b: &[f64]) -> f64 {
    let of: Vec<TrendPoint> = a.iter().copied().zip(b.iter().copied()).collect();
    let (mut both, mut in_a, mut in_b) = (0.0, 0.0, 0.0);
    for (one, other) in pairs(&of) {
        let (x, y) = (sign(other.0 - one.0), sign(other.1 - one.1));
        both += x * y;
        in_a += x * x;
        in_b += y * y;
    }
    let all = f64::sqrt(in_a * in_b);
    if all > 0.0 { both / all } else { 0.0 }
}

/// Whether a value is out of line with a series.
pub(super) fn is_outlier(points: &[TrendPoint], value: f64) -> bool {
    let values: Vec<f64> = points.iter().map(|p| p.1).collect();
    let Some(middle) = median(values.clone()).filter(|_| values.len() >= POINTS_MIN) else {
        return false;
    };
    let mad = median(values.iter().map(|v| (v - middle).abs()).collect()).unwrap_or(0.0);
    MAD_FACTOR * (value - middle) / mad.max(SPREAD_MIN * middle) > Z_OUTLIER
}

pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    let middle = values.len() / 2;
    values.sort_by(f64::total_cmp);
    let upper = *values.get(middle)?;
    match values.len() % 2 {
        0 => Some(f64::midpoint(upper, values[middle - 1])),
        _ => Some(upper),
    }
}

fn pairs(points: &[TrendPoint]) -> impl Iterator<Item = (TrendPoint, TrendPoint)> + '_ {
    let rest = |(i, a): (usize, &TrendPoint)| {
        let a = *a;
        points[i + 1..].iter().map(move |b| (a, *b))
    };
    points.iter().enumerate().flat_map(rest)
}

/// The sign, 0 of 0.
fn sign(of: f64) -> f64 {
    match of.total_cmp(&0.0) {
        _ if of.abs() <= 0.0 => 0.0,
        std::cmp::Ordering::Less => -1.0,
        _ => 1.0,
    }
}

fn count(n: usize) -> f64 {
    n as f64
}
