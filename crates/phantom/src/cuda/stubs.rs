//! Every other name that PyTorch's libraries ask for (`names.txt`). Kernels and notes (`quiet.txt`) do nothing, which is all
//! that is to be known of them; any other is reported the first time that it is called.

use std::ffi::c_int;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use super::report::{once, say};
use super::state::SUCCESS;

macro_rules! quiet {
    ($($name:ident)*) => {
        $(#[unsafe(no_mangle)] extern "C" fn $name() -> c_int { SUCCESS })*
    };
}

macro_rules! reported {
    ($($name:ident)*) => {
        $(#[unsafe(no_mangle)] extern "C" fn $name() -> c_int {
            static SAID: AtomicBool = AtomicBool::new(false);
            once(&SAID, stringify!($name));
            SUCCESS
        })*
    };
}

/// A function for each name that was looked up and that no list has: it tells its calls from those of the others.
macro_rules! looked_up {
    ($($place:literal)*) => {
        static LOOKED_UP: [extern "C" fn() -> c_int; [$($place),*].len()] = [$({
            extern "C" fn called() -> c_int {
                say_called($place);
                SUCCESS
            }
            called
        }),*];
    };
}

/// Names by the place of their function, and whether a call was reported.
static NAMES: Mutex<Vec<(String, bool)>> = Mutex::new(Vec::new());

fn say_called(place: usize) {
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((name, said)) = names.get_mut(place)
        && !std::mem::replace(said, true)
    {
        say(name);
    }
}

/// What a name without behaviour gets: a function that does nothing, and is reported the first time that it is called.
pub(super) fn stub_of(name: &str) -> usize {
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let known = names.iter().position(|(known, _)| known == name);
    let place = known.unwrap_or(names.len());
    let Some(stub) = LOOKED_UP.get(place) else {
        // More than any program looks up: they share the last one.
        say(&format!("{name} (looked up)"));
        return LOOKED_UP[LOOKED_UP.len() - 1] as usize;
    };
    if known.is_none() {
        names.push((name.to_owned(), false));
    }
    *stub as usize
}

include!(concat!(env!("OUT_DIR"), "/stubs.rs"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_a_function_of_its_own() {
        let one = stub_of("cuNobodyHasThis");
        assert_ne!(one, stub_of("cuNobodyHasThat"));
        assert_eq!(one, stub_of("cuNobodyHasThis"));
        let place = LOOKED_UP.iter().position(|stub| *stub as usize == one);
        assert_eq!(LOOKED_UP[place.unwrap()](), SUCCESS);
        assert!(NAMES.lock().unwrap()[place.unwrap()].1);
    }
}
