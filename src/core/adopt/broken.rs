//! What is surely a slip of the pen: files of settings that are no YAML, and lines that end earlier than their author meant.

use oomctl_scripts::{Reading, SCRIPT, hydra, is_shell, yaml::Yaml};

/// Where each of them is wrong, and why.
pub fn broken(reading: &Reading) -> Vec<String> {
    let unread = |path: &String| {
        reading
            .calls
            .iter()
            .any(|c| c.all_unread().any(|u| u == path))
    };
    let files = reading.sources.iter().skip(SCRIPT);
    let yaml = files.filter(|f| f.path.ends_with(".yaml") || f.path.ends_with(".yml"));
    let wrong = yaml.filter(|file| unread(&file.path)).filter_map(|file| {
        let problem = Yaml::parse(&file.path, &file.text).err()?;
        let place = problem.places.first().map(|at| at.origin.to_string());
        let place = place.map(|place| format!(" ({place})")).unwrap_or_default();
        Some(format!("{}{place}", problem.what))
    });
    wrong.collect()
}

/// Lines of shell scripts that end in a backslash and a blank, so that the next line, which looks like more of the command, is a
/// command of its own.
pub fn cut(reading: &Reading) -> Vec<String> {
    let files = reading.sources.iter().skip(SCRIPT);
    let shells = files.filter(|file| is_shell(&file.text));
    let said = shells.flat_map(|file| {
        let lines: Vec<&str> = file.text.lines().collect();
        let cut = lines
            .windows(2)
            .enumerate()
            .filter(|(_, two)| is_cut(two[0], two[1]));
        let told = cut.map(|(at, _)| {
            format!(
                "a blank follows the backslash at {}:{}, so the command ends there and the next line is none of it",
                file.path,
                at + 1
            )
        });
        told.collect::<Vec<_>>()
    });
    said.collect()
}

fn is_cut(line: &str, next: &str) -> bool {
    let trimmed = line.trim_end();
    let escapes = trimmed.len() < line.len() && trimmed.ends_with('\\');
    let next = next.trim_start();
    let option =
        next.starts_with('-') || hydra::read(next.split(' ').next().unwrap_or(next)).is_some();
    escapes && !line.trim_start().starts_with('#') && option
}

#[cfg(test)]
mod tests {
    use super::is_cut;

    #[test]
    fn a_blank_behind_a_backslash_cuts_a_command_that_goes_on() {
        for next in ["  --lr 1", "    actor.lr=1 \\"] {
            assert!(is_cut("python a.py \\ ", next), "{next}");
            assert!(!is_cut("python a.py \\", next), "{next}");
            assert!(!is_cut("# python a.py \\ ", next), "{next}");
        }
        assert!(!is_cut("echo a\\ ", "echo b"));
    }
}
