//! No input makes it panic, allocate without bound, or print what drives a terminal: each promise is
//! tried for a few seconds on changed inputs, and for as long as `OOMCTL_FUZZ_SECONDS` says.
//!
//! CONTRIBUTING.md has the commands. What is promised stands in `checks`, which the wrappers for
//! libFuzzer in `fuzz/` use too; the follower's model is a test of its own, beside its code.

#![allow(
    clippy::disallowed_methods,
    reason = "tests touch files, processes and the clock"
)]

mod campaign;
mod checks;
mod mutate;
mod printed;
mod seeds;

use checks::allocations::{Counted, within};

#[global_allocator]
static ALLOCATOR: Counted = Counted;

#[test]
fn a_log_is_diagnosed_alike_in_any_pieces_and_in_bounded_memory() {
    campaign::run("log", checks::log::check);
}

#[test]
fn numbers_of_a_message_are_read_as_printed_or_not_at_all() {
    campaign::run("message", checks::message::check);
}

#[test]
fn no_answer_of_slurm_becomes_more_than_it_says() {
    campaign::run("slurm", checks::slurm::check);
}

#[test]
fn a_script_is_read_to_its_end_and_changed_in_one_place() {
    campaign::run("script", checks::script::check);
}

#[test]
fn a_configuration_is_taken_or_refused_with_its_place() {
    campaign::run("project", checks::project::check);
}

#[test]
fn templates_end_and_a_value_stays_one_word() {
    campaign::run("template", checks::template::check);
}

#[test]
fn a_ledger_never_says_more_than_was_written() {
    campaign::run("ledger", checks::ledger::check);
}

#[test]
fn a_kernels_log_gives_what_stands_in_it() {
    campaign::run("kernel_log", checks::kernel_log::check);
}

#[test]
fn a_snapshot_of_memory_gives_no_more_than_it_holds() {
    campaign::run("snapshot", checks::snapshot::check);
}

#[test]
fn a_script_is_read_with_places_that_are_in_it() {
    campaign::run("python", checks::python::check);
}

#[test]
fn the_program_prints_no_control_character_of_a_log() {
    let folder = tempfile::tempdir().unwrap();
    campaign::run("printed", |log: &[u8]| printed::check(folder.path(), log));
}

#[test]
fn an_input_that_fails_is_made_as_short_as_it_can_be() {
    let long = "two words, ".repeat(500) + "OOM" + &" and more".repeat(500);
    let fails = |input: &[u8]| String::from_utf8_lossy(input).contains("OOM");
    assert_eq!(campaign::shrink(long.as_bytes(), &fails), b"OOM");
}

#[test]
#[should_panic(expected = "held 1000 bytes at once, where 999 are allowed")]
fn what_is_held_at_once_is_counted() {
    within(999, || {
        drop(Vec::<u8>::with_capacity(900));
        drop(vec![1_u8; 1_000]);
    });
}
