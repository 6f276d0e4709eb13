//! The first page of help: commands by what they are for.

use clap::Command;

/// The commands that the first page shows. Those that stand in no group are for programs and for looking things up.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Run", &["submit", "watch", "run", "retry", "cancel"]),
    ("Look", &["status", "logs", "history", "report", "gpus"]),
    (
        "Understand",
        &["diagnose", "fix", "plan", "estimate", "measure", "explain"],
    ),
    ("Tune", &["tune", "sweep"]),
    (
        "Set up",
        &["init", "doctor", "presets", "prune", "completions"],
    ),
];

/// The command line with its groups.
pub fn grouped(command: Command) -> Command {
    let shown = |name: &&str| GROUPS.iter().any(|(_, names)| names.contains(name));
    let hidden = command.get_subcommands().map(Command::get_name);
    let hidden: Vec<&str> = hidden.filter(|name| !shown(name)).collect();
    let mut page = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    let head = *command.get_styles().get_header();
    for (title, names) in GROUPS {
        page.push_str(&format!("\n{head}{title}:{head:#}\n"));
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map_or_else(String::new, ToString::to_string);
            page.push_str(&format!("  {name:<12} {about}\n"));
        }
    }
    let rest = hidden.join(", ");
    page.push_str(&format!(
        "\nAlso: {rest}. `oomctl COMMAND -h` shows a command's options.\n\n{head}Options:{head:#}\n{{options}}{{after-help}}"
    ));
    command.help_template(page)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn every_command_of_a_group_is_there_and_fits_its_line() {
        let command = crate::cli::Cli::command();
        for name in GROUPS.iter().flat_map(|(_, names)| *names) {
            let found = command.find_subcommand(name);
            let about = found.and_then(Command::get_about).map(ToString::to_string);
            let length = about.map_or(0, |about| about.chars().count());
            assert!((1..=64).contains(&length), "{name}: {length} characters");
        }
    }
}
