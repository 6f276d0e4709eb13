//! Writes the phantom into a folder and prints the variables of a shell in which programs see it:
//! `cargo run -p oomctl-phantom --example start -- FOLDER`.

#![allow(
    clippy::disallowed_methods,
    reason = "an example reads its words and writes files"
)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use oomctl_phantom::{LIBRARY, LIBRARY_NAMES, Phantom, PhantomCard};

fn main() -> std::io::Result<()> {
    let Some(folder) = std::env::args().nth(1) else {
        println!("usage: start FOLDER");
        return Ok(());
    };
    fs::create_dir_all(&folder)?;
    fs::write(Path::new(&folder).join(LIBRARY_NAMES[0]), LIBRARY)?;
    for name in &LIBRARY_NAMES[1..] {
        symlink(LIBRARY_NAMES[0], Path::new(&folder).join(name))?;
    }
    let phantom = Phantom {
        card: PhantomCard {
            name: "phantom of an A100".to_owned(),
            total_bytes: 40 << 30,
            context_bytes: 0,
            capability: (8, 0),
            processors: 108,
        },
        devices: 1,
        ones: false,
    };
    for (name, value) in phantom.variables(&folder, &format!("{folder}/calls"), None, None) {
        println!("export {name}='{value}'");
    }
    Ok(())
}
