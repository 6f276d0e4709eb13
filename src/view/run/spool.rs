//! Names of scripts as Slurm's copies have them.

/// A line of the shell without the folder into which Slurm copied the script.
pub(super) fn without_spool(text: &str) -> String {
    let Some(at) = text.find("/slurm_script: line ") else {
        return text.to_owned();
    };
    let begins = text[..at].rfind(char::is_whitespace).map_or(0, |at| at + 1);
    format!("{}{}", &text[..begins], &text[at + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_shell_has_no_folder_of_slurm() {
        let text = "1: /var/spool/node1/job04859/slurm_script: line 17: USER: unbound variable";
        assert_eq!(
            without_spool(text),
            "1: slurm_script: line 17: USER: unbound variable"
        );
        assert_eq!(without_spool("KeyError"), "KeyError");
    }
}
