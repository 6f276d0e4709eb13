//! The command that submits a configuration.

use crate::core::recipe::Layer;
use crate::core::request::Request;
use crate::view::CommandFailure;

/// The words that submit a configuration.
pub fn command(request: &Request, layers: &[Layer]) -> Result<Vec<String>, CommandFailure> {
    let inputs = request.inputs();
    let mut words: Vec<String> = ["oomctl", "submit", "--fresh"].map(str::to_owned).into();
    let profiles = [
        ("--preset", Some(&request.preset().name)),
        ("--dataset", inputs.dataset.as_ref()),
        ("--cluster", inputs.cluster.as_ref()),
    ];
    for (flag, name) in profiles {
        words.extend(name.iter().flat_map(|n| [flag.to_owned(), (*n).clone()]));
    }
    if inputs.backend != "slurm" {
        words.extend(["--backend", &inputs.backend].map(str::to_owned));
    }
    for (knob, value) in request.settings(layers)? {
        words.extend(["--set".to_owned(), format!("{knob}={value}")]);
    }
    for given in request.free_form(layers)? {
        words.extend(["--override".to_owned(), given]);
    }
    Ok(words)
}
