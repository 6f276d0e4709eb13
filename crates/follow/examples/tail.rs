//! Follows files as `tail -F` does, through rotation and truncation: `cargo run -p oomctl-follow --example tail -- slurm-*.out`.

#![allow(
    clippy::disallowed_methods,
    reason = "an example reads its words and files"
)]

use std::io::{self, Write};
use std::time::Duration;

use jiff::Timestamp;
use oomctl_follow::{FollowStart, Followers, Growth, LookMode};

fn main() -> io::Result<()> {
    let mut followers = Followers::new();
    let paths = std::env::args().skip(1);
    let files: Vec<_> = paths
        .map(|path| followers.follow(path.into(), FollowStart::At(0), 0))
        .collect();
    let waiter = followers.waiter();
    loop {
        for file in &files {
            let mut written = Ok(());
            followers.read(file, Timestamp::now(), LookMode::Due, &mut |growth| {
                if let Growth::Bytes { data, .. } = growth {
                    written = io::stdout().write_all(data);
                }
            });
            written?;
        }
        match &waiter {
            Some(waiter) => drop(waiter.wait(Duration::from_secs(1))),
            None => std::thread::sleep(Duration::from_secs(1)),
        }
    }
}
