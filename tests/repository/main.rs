//! What the checkout itself must hold: the direction of imports, lengths and names, licences, and documents that say what is so.

#![allow(
    clippy::disallowed_methods,
    reason = "tests touch files, processes and the clock"
)]

mod architecture;
mod checklist;
mod dependencies;
mod documents;
mod english;
mod libraries;
mod loops;
mod packaging;
mod source;
mod tidy;
