//! Compiles `src/cuda` into a shared library, whose bytes the crate carries.
//!
//! Cargo installs programs, no shared libraries: a `cdylib` of this workspace would be missing after `cargo install` and in the
//! wheel. So the compiler that builds the crate is called once more, for the same target and with the same linker, and the
//! program writes the library down where it needs it. The library uses the standard library alone, so this one call is all.

#![allow(
    clippy::disallowed_methods,
    reason = "a build script reads its sources and calls the compiler"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Functions for names that no list has and that a program looks up while it runs. CUDA's bindings for Python look up all, some 400.
const LOOKED_UP: usize = 1024;

fn main() {
    let folder = Path::new("src/cuda");
    println!("cargo::rerun-if-changed=src/cuda");
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("stubs.rs"), stubs(folder)).expect("cargo made the folder");
    let library = out.join("libphantom.so");
    let target = env::var("CARGO_CFG_TARGET_OS").expect("cargo sets it");
    if target != "linux" {
        // The program is for Linux; elsewhere it still builds, without this.
        fs::write(&library, "").expect("cargo made the folder");
        return;
    }
    compile(&folder.join("mod.rs"), &library);
}

fn compile(source: &Path, library: &Path) {
    let mut rustc = Command::new(env::var_os("RUSTC").expect("cargo sets it"));
    rustc
        .args([
            "--edition=2024",
            "--crate-type=cdylib",
            "--crate-name=phantom",
        ])
        .args([
            "-Copt-level=2",
            "-Cpanic=abort",
            "-Cstrip=symbols",
            "-Ccodegen-units=1",
        ])
        // A program that loads the driver by its name gets this one, for it is loaded already.
        .arg("-Clink-arg=-Wl,-soname,libcuda.so.1")
        .arg("--target")
        .arg(env::var_os("TARGET").expect("cargo sets it"))
        .arg("-o")
        .arg(library)
        .arg(source);
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        rustc.arg(format!("-Clinker={}", linker.display()));
    }
    // Paths that a release leaves out stand in the flags (packaging/release).
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    rustc.args(
        flags
            .split('\u{1f}')
            .filter(|flag| flag.starts_with("--remap-path-prefix")),
    );
    let status = rustc.status().expect("cargo has just called it");
    assert!(status.success(), "rustc: {status}");
}

/// Every name of the lists that no function of the sources has, by whether a call of it is reported.
fn stubs(folder: &Path) -> String {
    let defined = defined(folder);
    let quiet = lines(&folder.join("quiet.txt"));
    let is_quiet = |name: &String| {
        quiet.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => name == pattern,
        })
    };
    let mut names: BTreeSet<String> = lines(&folder.join("names.txt")).into_iter().collect();
    names.extend(lines(&folder.join("more_names.txt")));
    let names = names.difference(&defined).cloned();
    let (silent, reported): (Vec<String>, Vec<String>) = names.partition(is_quiet);
    let places: Vec<String> = (0..LOOKED_UP).map(|place| place.to_string()).collect();
    format!(
        "quiet! {{ {} }}\nreported! {{ {} }}\nlooked_up! {{ {} }}\n",
        silent.join(" "),
        reported.join(" "),
        places.join(" ")
    )
}

fn lines(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).expect("the list lies beside the sources");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(str::to_owned).collect()
}

/// Names that the sources export: those behind `extern "C" fn`, and those of the lists of `libraries.rs`.
fn defined(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).expect("the sources lie here") {
        let path = entry.expect("the folder was just opened").path();
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("the file was just listed");
        for part in text.split("extern \"C\" fn ").skip(1) {
            found.extend(part.split('(').next().map(str::to_owned));
        }
        for list in ["\nhandles! {", "\nmodes! {", "\nroom! {"] {
            let inside = text
                .split(list)
                .nth(1)
                .and_then(|rest| rest.split('}').next());
            let names = inside
                .unwrap_or("")
                .split(|letter: char| letter.is_whitespace() || letter == ';');
            found.extend(names.map(str::to_owned));
        }
    }
    found
}
