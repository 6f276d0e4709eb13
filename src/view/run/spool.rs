//! Names of scripts as Slurm's copies have them.

/// A line of the shell without the folder into which Slurm copied the script.
pub fn without_spool(text: &str) -> String {
    let Some(at) = text.find("/slurm_script: line ") else {
        return text.to_owned();
    };
    let begins = text[..at].rfind(char::is_whitespace).map_or(0, |at| at + 1);
    format!("{}{}", &text[..begins], &text[at + 1..])
}
