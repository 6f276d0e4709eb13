//! Maintenances of the whole cluster: reservations with the flags `MAINT` and `ALL_NODES`, as `scontrol -o show reservation`
//! prints them. One of some nodes keeps no job from the others.

use super::super::Maintenance;
use super::clients::Clients;
use super::states::parse_time;

/// Those that are and will be; none where scontrol does not answer.
pub(super) fn maintenances(clients: &Clients) -> Vec<Maintenance> {
    let words = ["-o", "show", "reservation"].map(str::to_owned);
    let text = clients.answer("scontrol", &words).unwrap_or_default();
    text.lines().filter_map(read).collect()
}

fn read(line: &str) -> Option<Maintenance> {
    let field = |name: &str| line.split(' ').find_map(|word| word.strip_prefix(name));
    let flags = field("Flags=")?;
    let has = |flag: &str| flags.split(',').any(|f| f == flag);
    Some(Maintenance {
        start: parse_time(field("StartTime=")?)?,
        end: parse_time(field("EndTime=")?)?,
    })
    .filter(|_| has("MAINT") && has("ALL_NODES"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_maintenance_of_all_nodes_counts() {
        // As scontrol of 22.05 prints it with SLURM_TIME_FORMAT=%s, shortened.
        let line = |flags: &str| {
            read(&format!(
                "ReservationName=root_1 StartTime=1795672492 EndTime=1795676092 Duration=01:00:00 Nodes=node[1-12] NodeCnt=12 \
                 Flags={flags} TRES=cpu=192 Users=root State=INACTIVE"
            ))
        };
        let found = line("MAINT,IGNORE_JOBS,SPEC_NODES,ALL_NODES").unwrap();
        assert_eq!(found.start.as_second(), 1_795_672_492);
        assert_eq!(found.end.as_second(), 1_795_676_092);
        assert!(line("MAINT,SPEC_NODES").is_none());
        assert!(line("SPEC_NODES,ALL_NODES").is_none());
        assert!(read("No reservations in the system").is_none());
    }
}
