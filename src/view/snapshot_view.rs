//! What a snapshot of PyTorch's allocator shows, line by line.

use oomctl_diagnose::{AllocationSite, Frame, Snapshot, sanitize};

/// Names and texts of its lines.
pub fn lines(snapshot: &Snapshot) -> Vec<(&'static str, String)> {
    let mut all = vec![
        ("snapshot", sanitize(snapshot.file.as_bytes())),
        ("", sums(snapshot)),
        ("", pieces(snapshot)),
    ];
    for (i, held) in snapshot.largest.iter().enumerate() {
        let name = if i == 0 { "held by" } else { "" };
        all.push((name, held_by(held)));
    }
    all
}

/// When it was taken, and whose memory it is.
fn sums(snapshot: &Snapshot) -> String {
    let when = match snapshot.at_failure {
        Some(true) => "where memory ran out",
        Some(false) => "taken elsewhere, so it is ignored",
        None => "no history, so it is ignored",
    };
    let owners = snapshot.owners.iter().take(4);
    let owners: Vec<String> = owners
        .map(|share| format!("{} {}", share.owner.words(), share.bytes))
        .collect();
    format!(
        "GPU {}, {when}: {} in use: {}",
        snapshot.device,
        snapshot.active_bytes,
        owners.join(", ")
    )
}

/// What lay idle, and whether it would have been enough.
fn pieces(snapshot: &Snapshot) -> String {
    let largest = snapshot.largest_idle_bytes;
    let whole = snapshot
        .requested_bytes
        .is_some_and(|wanted| largest >= wanted);
    let so = match snapshot.fragmented {
        Some(true) => ": enough, but in pieces (fragmentation)",
        Some(false) if whole => ": enough for the request in one piece",
        Some(false) => ": too little even in one piece",
        None => "",
    };
    format!(
        "{} reserved, {} of it idle, the largest piece {}{so}",
        snapshot.reserved_bytes, snapshot.idle_bytes, snapshot.largest_idle_bytes
    )
}

fn held_by(held: &AllocationSite) -> String {
    let plural = if held.tensors == 1 { "" } else { "s" };
    let frame = held
        .frame
        .as_ref()
        .map_or_else(String::new, |frame| format!(", {}", short(frame)));
    format!(
        "{} {} ({} tensor{plural}){frame}",
        held.bytes,
        held.owner.words(),
        held.tensors
    )
}

/// A frame without the folder in which packages are installed.
fn short(frame: &Frame) -> String {
    let text = frame.to_string();
    let packages = ["site-packages/", "dist-packages/"];
    let cut = packages.iter().find_map(|p| text.split_once(p));
    cut.map_or(text.clone(), |(_, rest)| rest.to_owned())
}
