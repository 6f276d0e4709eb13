//! A job script with a log and files beside it, and what `fix` says of them.

use super::place::{Done, Place};

/// A folder with `job.sh`, which runs this text, its log `job.log`, and these files.
pub fn job(script: &str, log: &str, files: &[(&str, &str)]) -> Place {
    let place = Place::bare();
    place.write("job.sh", &format!("#!/bin/bash\n{script}\n"));
    place.write("job.log", log);
    for (name, text) in files {
        place.write(name, text);
    }
    place
}

/// What `fix` says of such a job.
pub fn fixed(script: &str, log: &str, files: &[(&str, &str)]) -> Done {
    job(script, log, files).run("fix job.log job.sh").ends(0)
}
