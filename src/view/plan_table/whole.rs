//! The table with a line for each change, and remarks below.

use std::collections::BTreeSet;

use textwrap::core::display_width;

use super::{ASSUMED, DIM, HOST, INDENT, PlanTable, Side, Table, TableCell};
use super::{effect, is_long, numbers, shown, wrapped};

/// What a line has room for.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum TableDetail {
    Everything,
    /// All but the fullest phase and the speed so far.
    NoPhases,
    /// Nor the places: the diffs name them too.
    NoPlaces,
    /// Only the change and its effect.
    Narrow,
}

impl PlanTable<'_> {
    /// Every row with all of its changes, each with its place and effect; below it its rungs with their remarks, each once.
    /// Of a plan they say, too, where a rung does not help: what follows a failure is chosen for that one.
    pub fn whole(&self, columns: usize, is_plan: bool) -> String {
        let fits = |lines: &[String]| lines.iter().all(|line| display_width(line) <= columns);
        let rooms = [
            TableDetail::Everything,
            TableDetail::NoPhases,
            TableDetail::NoPlaces,
        ];
        let mut tables = rooms.iter().map(|room| self.each(*room));
        let wide = tables.find(|lines| fits(lines));
        let is_narrow = wide.is_none();
        let lines = wide.unwrap_or_else(|| self.each(TableDetail::Narrow));
        let mut lines = lines.into_iter().map(|line| line + "\n");
        let mut out = lines.next().unwrap_or_default();
        out += &wrapped("1", self.first.unwrap_or_default(), columns);
        let mut said = BTreeSet::new();
        let mut above = None;
        for row in &self.rows {
            out.extend(lines.by_ref().take(row.changes.len()));
            if is_narrow {
                out += &wrapped("", &row.cost(), columns);
            }
            let remarks = row.remarks(above, is_plan, &mut said).into_iter();
            above = row.rungs.last().copied();
            out.extend(remarks.map(|line| wrapped("", &line, columns)));
        }
        let is_known = self.rows.iter().any(|r| r.memory.is_some());
        out.extend(lines);
        out += &wrapped("", self.host.as_ref().map_or("", |_| HOST), columns);
        out += &wrapped("", if is_plan && is_known { ASSUMED } else { "" }, columns);
        out + &wrapped("", &self.unasked, columns)
    }

    /// The head, and a line for each change.
    fn each(&self, room: TableDetail) -> Vec<String> {
        let (has_phases, has_places) = (room < TableDetail::NoPhases, room < TableDetail::NoPlaces);
        let is_wide = room < TableDetail::Narrow;
        let has_memory = is_wide && self.rows.iter().any(|r| r.memory.is_some());
        let has_speed = is_wide && self.rows.iter().any(|r| r.slower.is_some());
        let all = || self.rows.iter().chain(&self.host);
        let changes = all().flat_map(|row| &row.changes);
        let is_long = is_long(changes.map(|change| change.place.as_str()));
        let label = |at| if at == 0 { INDENT - 2 } else { 0 };
        let mut table = Table::new((0..10).map(|at| (Side::Left, label(at))));
        let heads = [
            (true, "attempt"),
            (is_wide, "knob"),
            (true, "change"),
            (has_places, "where"),
            (true, "training"),
            (has_memory, "GiB"),
            (has_memory, "fits"),
            (has_memory && has_phases, "fullest in"),
            (has_speed, "speed"),
            (has_speed && has_phases, "so far"),
        ];
        let heads = heads.into_iter().filter(|(has, _)| *has);
        table.row(heads.map(|(_, head)| TableCell::from(head).painted(Some(DIM))));
        let mut last = None;
        for row in all() {
            for (at, change) in row.changes.iter().enumerate() {
                let is_new = last.replace(row.attempts) != Some(row.attempts);
                let label = match is_new {
                    true => numbers(row.attempts),
                    false => String::new(),
                };
                let (knob, values) = (change.name, change.values(false));
                let mut cells = match is_wide {
                    true => vec![label.into(), knob.into(), values.into()],
                    false => vec![label.into(), format!("{knob} {values}").into()],
                };
                cells.extend(has_places.then(|| shown(&change.place, is_long).into()));
                cells.push(effect(change.effect));
                if at == 0 {
                    let memory = has_memory.then(|| [row.memory_cell(), row.odds()]);
                    let phase = (has_memory && has_phases).then(|| row.phase().to_owned());
                    let speed = has_speed.then(|| row.speed());
                    let so_far = (has_speed && has_phases).then(|| row.speed_so_far());
                    let rest = memory.into_iter().flatten().chain(phase);
                    cells.extend(rest.chain(speed).chain(so_far).map(TableCell::from));
                }
                table.row(cells);
            }
        }
        table.lines().collect()
    }
}
