//! A GPU's memory as a bar.

use oomctl_base::units::Bytes;
use oomctl_diagnose::Incident;

/// Cells of the bar.
const CELLS: u64 = 40;
/// How far figures may disagree before they contradict each other, as one part in so many of the total:
/// messages round to 10 MiB.
const ROUNDING: u64 = 100;

/// What one kind of bytes is drawn with, in Unicode and in ASCII.
const LOOKS: [(&str, char, char); 4] = [
    ("allocated", '█', '#'),
    ("reserved, unused", '▒', '='),
    ("outside PyTorch", '░', '+'),
    ("free", '·', '.'),
];

/// The bar and its legend; `None` where the figures are too few or contradict each other.
pub fn memory_bar(incident: &Incident, unicode: bool) -> Option<[String; 2]> {
    let total = incident.total_bytes?.0;
    let free = incident.free_bytes?.0;
    let allocated = incident.allocated_bytes.map_or(0, |b| b.0);
    let reserved = incident.reserved_bytes.map_or(0, |b| b.0);
    let unused = match incident.reserved_unallocated_bytes {
        Some(unused) => unused.0,
        None if reserved == 0 => 0,
        None => reserved.checked_sub(allocated)?,
    };
    let known = allocated.checked_add(unused)?.checked_add(free)?;
    if total == 0 || known > total.saturating_add(total / ROUNDING) {
        return None;
    }
    let parts = [allocated, unused, total.saturating_sub(known), free];
    let has_parts = incident.allocated_bytes.is_some() || incident.reserved_bytes.is_some();
    let mut bar = String::from("[");
    let mut legend = Vec::new();
    for ((bytes, cells), (name, rich, plain)) in parts.iter().zip(cells(parts)).zip(LOOKS) {
        let look = if unicode { rich } else { plain };
        bar.extend((0..cells).map(|_| look));
        if *bytes > total / (ROUNDING * 10) {
            let name = if has_parts || name == "free" {
                name
            } else {
                "in use"
            };
            legend.push(format!("{look} {} {name}", Bytes(*bytes)));
        }
    }
    Some([format!("{bar}] {}", Bytes(total)), legend.join("  ")])
}

/// Shares of [`CELLS`], by largest remainder, so that they always add up.
fn cells(parts: [u64; 4]) -> [u64; 4] {
    let sum: u128 = parts.iter().map(|p| u128::from(*p)).sum::<u128>().max(1);
    let scaled = parts.map(|p| u128::from(p) * u128::from(CELLS));
    let mut cells = scaled.map(|s| u64::try_from(s / sum).unwrap_or(0));
    let mut order = [0, 1, 2, 3];
    order.sort_by_key(|i| std::cmp::Reverse(scaled[*i] % sum));
    let missing = CELLS.saturating_sub(cells.iter().sum());
    for i in order
        .into_iter()
        .cycle()
        .take(usize::try_from(missing).unwrap_or(0))
    {
        cells[i] += 1;
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use oomctl_diagnose::Class;

    fn incident(total: f64, allocated: f64, unused: f64, free: f64) -> Incident {
        let gib = |n| Some(Bytes::from_gib(n));
        Incident {
            total_bytes: gib(total),
            allocated_bytes: gib(allocated),
            reserved_unallocated_bytes: gib(unused),
            reserved_bytes: gib(allocated + unused),
            free_bytes: gib(free),
            ..Incident::bare("cuda_oom", Class::GpuOom)
        }
    }

    #[test]
    fn the_bar_is_to_scale_and_says_what_it_shows() {
        let bar = memory_bar(&incident(80.0, 40.0, 20.0, 10.0), false);
        assert_eq!(
            bar.unwrap(),
            [
                "[####################==========+++++.....] 80.00 GiB",
                "# 40.00 GiB allocated  = 20.00 GiB reserved, unused  + 10.00 GiB outside PyTorch  . 10.00 GiB free",
            ]
        );
        let rich = memory_bar(&incident(80.0, 80.0, 0.0, 0.0), true).unwrap();
        assert_eq!(rich[0].matches('█').count(), 40);
        assert_eq!(rich[1], "█ 80.00 GiB allocated");
    }

    #[test]
    fn figures_that_contradict_each_other_are_not_drawn() {
        assert_eq!(memory_bar(&incident(15.0, 8.0, 4.0, 80.0), true), None);
        assert_eq!(memory_bar(&incident(15.0, 16.0, 0.0, 0.0), true), None);
        let most = incident(f64::MAX, 1.0, 0.0, 1.0);
        assert!(memory_bar(&most, true).is_some(), "{:?}", most.total_bytes);
        let mut few = incident(15.0, 8.0, 4.0, 1.0);
        few.total_bytes = None;
        assert_eq!(memory_bar(&few, true), None);
    }

    #[test]
    fn cells_always_add_up() {
        for parts in [
            [1, 1, 1, 0],
            [0, 0, 0, 0],
            [u64::MAX, u64::MAX, 1, 7],
            [3, 5, 7, 11],
        ] {
            assert_eq!(cells(parts).iter().sum::<u64>(), CELLS, "{parts:?}");
        }
    }
}
