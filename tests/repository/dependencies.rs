//! deny.toml, as far as it can be held to without `cargo deny`: licences, sources and bans of all that is built for Linux.
//! Advisories need its database (tests/all says where it has none).

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

/// The packages that cargo resolves for Linux.
fn packages() -> Vec<Value> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--locked", "--offline"])
        .args([
            "--filter-platform=x86_64-unknown-linux-gnu",
            "--all-features",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo metadata: {told}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let nodes = document["resolve"]["nodes"].as_array().unwrap().clone();
    let used: BTreeSet<&str> = nodes.iter().filter_map(|n| n["id"].as_str()).collect();
    let packages = document["packages"].as_array().unwrap().iter();
    packages
        .filter(|p| p["id"].as_str().is_some_and(|id| used.contains(id)))
        .cloned()
        .collect()
}

fn policy() -> toml_edit::Document<String> {
    include_str!("../../deny.toml").parse().unwrap()
}

/// Do the licences that are allowed satisfy an SPDX expression? `/` is the old form of OR.
fn satisfied(expression: &str, allowed: &[&str]) -> bool {
    let text = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let mut words = text.split_whitespace().peekable();
    either(&mut words, allowed)
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn either(words: &mut Words<'_>, allowed: &[&str]) -> bool {
    let mut holds = both(words, allowed);
    while words.next_if_eq(&"OR").is_some() {
        holds |= both(words, allowed);
    }
    holds
}

fn both(words: &mut Words<'_>, allowed: &[&str]) -> bool {
    let mut holds = one(words, allowed);
    while words.next_if_eq(&"AND").is_some() {
        holds &= one(words, allowed);
    }
    holds
}

fn one(words: &mut Words<'_>, allowed: &[&str]) -> bool {
    let Some(mut licence) = words.next().map(str::to_owned) else {
        return false;
    };
    if licence == "(" {
        let holds = either(words, allowed);
        return words.next_if_eq(&")").is_some() && holds;
    }
    if words.next_if_eq(&"WITH").is_some() {
        licence = format!("{licence} WITH {}", words.next().unwrap_or_default());
    }
    allowed.contains(&licence.as_str())
}

#[test]
fn expressions_of_licences_are_read() {
    let allowed = ["MIT", "Apache-2.0 WITH LLVM-exception", "Zlib"];
    for (expression, holds) in [
        ("MIT", true),
        ("MIT/GPL-3.0", true),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0 AND MIT", false),
        ("(GPL-3.0 OR MIT) AND Zlib", true),
        ("Apache-2.0 WITH LLVM-exception", true),
        ("Apache-2.0", false),
        ("", false),
    ] {
        assert_eq!(satisfied(expression, &allowed), holds, "{expression}");
    }
}

#[test]
fn every_dependency_is_under_a_licence_that_deny_toml_allows() {
    let policy = policy();
    let allowed = policy["licenses"]["allow"].as_array().unwrap();
    let allowed: Vec<&str> = allowed.iter().filter_map(|v| v.as_str()).collect();
    let packages = packages();
    assert!(packages.len() > 50, "only {} packages", packages.len());
    let others: Vec<_> = packages
        .iter()
        .filter(|p| !satisfied(p["license"].as_str().unwrap_or(""), &allowed))
        .map(|p| (&p["name"], &p["license"]))
        .collect();
    assert!(others.is_empty(), "{others:?}");
}

#[test]
fn every_dependency_comes_from_the_registry_and_none_is_banned() {
    let policy = policy();
    let banned = policy["bans"]["deny"].as_array().unwrap().iter();
    let banned: Vec<&str> = banned
        .filter_map(|v| v.as_inline_table()?.get("name")?.as_str())
        .collect();
    assert!(!banned.is_empty());
    for package in packages() {
        let name = package["name"].as_str().unwrap();
        assert!(!banned.contains(&name), "{name} is banned");
        let source = package["source"].as_str();
        let known = "registry+https://github.com/rust-lang/crates.io-index";
        let manifest = package["manifest_path"].as_str().unwrap();
        let ours = source.is_none() && manifest.starts_with(env!("CARGO_MANIFEST_DIR"));
        assert!(
            ours || source == Some(known),
            "{name} comes from {source:?}"
        );
    }
}
