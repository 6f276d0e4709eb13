//! Reads amounts as Slurm and PyTorch write them: `cargo run -p oomctl-base --example units -- 40G "79.15 GiB" 80GB`.

#![allow(
    clippy::disallowed_methods,
    reason = "an example reads its words and files"
)]

use oomctl_base::units::Bytes;

fn main() {
    for text in std::env::args().skip(1) {
        match Bytes::parse(&text) {
            Ok(bytes) => println!("{text} is {} bytes, {:.2} GiB", bytes.0, bytes.gib()),
            Err(why) => println!("{text}: {why}"),
        }
    }
}
