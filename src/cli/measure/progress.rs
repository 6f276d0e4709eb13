//! How far a program on phantom GPUs is, for those who wait at a terminal.

use std::io::IsTerminal;
use std::time::Duration;

use crate::core::measure::PhantomRecord;
use crate::view::print;

/// Prints a line now and then that begins with `who`. Without that, and where nobody looks, it prints nothing.
pub fn progress(who: Option<String>) -> impl FnMut(Duration, Vec<PhantomRecord>) {
    let who = who.filter(|_| std::io::stderr().is_terminal());
    move |elapsed, records| {
        if let Some(who) = &who {
            let record = PhantomRecord::fullest(records).unwrap_or_default();
            let seconds = elapsed.as_secs();
            print::talk(&format!("{who}  {seconds} s: {}", record.progress()));
        }
    }
}
