//! Looks at the GPUs of this machine and says what is wrong with them: `cargo run -p oomctl-gpu --example look`.

#![allow(
    clippy::disallowed_methods,
    reason = "an example reads its words and files"
)]

use oomctl_gpu::advise;
use oomctl_gpu::nvml::Driver;

fn main() {
    let machine = match Driver::open().and_then(|driver| driver.look()) {
        Ok(machine) => machine,
        Err(why) => return println!("{why}"),
    };
    for gpu in &machine.gpus {
        println!("{gpu:?}");
    }
    for advice in advise(&machine, None) {
        println!("{advice:?}");
    }
}
