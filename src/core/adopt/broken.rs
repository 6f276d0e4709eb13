//! Files of settings that are no YAML: the program will not read them either.

use oomctl_scripts::{Reading, SCRIPT, yaml::Yaml};

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
