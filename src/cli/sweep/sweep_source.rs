//! Where a sweep comes from: a file or overrides, over the configuration of its project.

use std::path::Path;

use super::plain;
use crate::cli::args::Configuration;
use crate::cli::request::{load, yaml_lint};
use crate::cli::session::Session;
use crate::core::exit::Exit;
use crate::core::recipe::{Layer, LayerKind, Recipe, resolve};
use crate::core::request::Request;
use crate::core::sweep::{self, Sweep, SweepChange, SweepContext};
use crate::io::files::read_text;
use crate::view::{CommandFailure, print};
use oomctl_base::{Origin, Value};

/// Largest sweep file that is read, in bytes.
const MOST_BYTES: u64 = 1 << 20;

/// Which sweep.
#[derive(Debug, clap::Args)]
pub struct SweepSource {
    /// A W&B sweep file, a Hydra configuration with `hydra.sweeper.params`, or overrides (`a=1,2`)
    #[arg(required = true, value_name = "FILE|KEY=VALUES")]
    sweep: Vec<String>,
    #[command(flatten)]
    pub configuration: Configuration,
    /// Print one JSON document
    #[arg(short, long)]
    pub json: bool,
}

impl SweepSource {
    /// The session in its project.
    pub fn session(&self) -> Result<Session, CommandFailure> {
        let session = Session::open(self.configuration.config.as_deref())?;
        Ok(session.printing(self.json))
    }
}

/// A sweep with everything it is judged by.
pub struct Loaded {
    pub path: String,
    pub text: Option<String>,
    /// As it stands in the file.
    pub given: Sweep,
    /// With what `--set` says of its parameters.
    pub sweep: Sweep,
    pub set: Vec<SweepChange>,
    /// Why the memory of no cell is known, where the sweep's own program is judged.
    pub doubt: Option<String>,
    request: Request,
    recipe: Recipe,
}

impl Loaded {
    /// The request without the sweep.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// Refuses a sweep whose program no template starts.
    ///
    /// # Errors
    /// No preset was chosen for it.
    pub fn needs_a_template(&self) -> Result<(), CommandFailure> {
        if self.request.inputs().scripts.is_none() {
            return Ok(());
        }
        let what = format!(
            "{}: oomctl has no template that starts `{}`, and makes each cell from one",
            self.path,
            self.given.first_words().join(" ")
        );
        let hint = "submit a job array: `#SBATCH --array=0-N` and bash arrays of the values, then `oomctl submit -w SCRIPT`; for a framework name its preset (--preset, or `preset:` in oomctl.yaml)";
        Err(CommandFailure::configuration(what).hint(hint))
    }

    /// What lies below the sweep.
    pub fn context(&self) -> SweepContext<'_> {
        SweepContext {
            preset: self.request.preset(),
            recipe: &self.recipe,
            cluster: &self.request.inputs().cluster_facts,
            // An estimate would be one of another configuration.
            profile: self.request.profile().filter(|_| self.doubt.is_none()),
        }
    }
}

/// Reads the sweep, and what lies below it. `sbatch` are options for Slurm.
pub fn load(
    session: &Session,
    source: &SweepSource,
    sbatch: &[String],
) -> Result<Loaded, CommandFailure> {
    let (path, text, given) = match source.sweep.as_slice() {
        [file] if !file.contains('=') => {
            let text = read_text(Path::new(file), MOST_BYTES)
                .map_err(|e| CommandFailure::from(e).with_exit(Exit::Usage))?;
            let sweep = sweep::parse(file, &text)?;
            yaml_lint::of(file, &text);
            (file.clone(), Some(text), sweep)
        }
        overrides => (
            overrides.join(" "),
            None,
            sweep::parse_overrides(overrides)?,
        ),
    };
    let flags = &source.configuration;
    let (request, doubt) = match plain::is_plain(session, flags, &given)? {
        true => plain::read(session, flags, &given)?,
        false => {
            if let Some(note) = plain::of_another(session, flags, &given)? {
                print::talk(&note);
            }
            (load::request(session, flags, "sweep", sbatch)?, None)
        }
    };
    let mut layers = request.inputs().layers.clone();
    layers.push(first_cell(&request, &path, &given));
    let recipe = resolve(request.preset(), &layers, &request.inputs().cluster_facts)?;
    let (sweep, set) = with_flags(&request, &recipe, &given);
    Ok(Loaded {
        path,
        text,
        given,
        sweep,
        set,
        doubt,
        request,
        recipe,
    })
}

/// The first value of every parameter: what the knobs below the sweep need not say.
fn first_cell(request: &Request, path: &str, sweep: &Sweep) -> Layer {
    let mut layer = Layer::new(LayerKind::Sweep);
    for axis in &sweep.axes {
        let knob = request.preset().knob(&axis.name);
        let value = knob.zip(axis.values.first());
        let value = value.and_then(|(k, v)| Some((k, k.kind.parse(&v.to_string()).ok()?)));
        let Some((knob, value)) = value else { continue };
        let place = axis.places.first();
        let origin = Origin::file(
            path,
            place.map_or(1, |p| p.line),
            place.map_or(1, |p| p.column),
        );
        layer.set(&knob.name, value, origin);
    }
    layer
}

/// What `--set` says of a parameter of the sweep wins over the sweep.
fn with_flags(request: &Request, recipe: &Recipe, given: &Sweep) -> (Sweep, Vec<SweepChange>) {
    let mut sweep = given.clone();
    let mut set = Vec::new();
    for axis in &mut sweep.axes {
        let resolved = request
            .preset()
            .knob(&axis.name)
            .and_then(|k| recipe.values.get(&k.name));
        let Some(resolved) = resolved.filter(|r| matches!(r.origin, Origin::Flag { .. })) else {
            continue;
        };
        let why = resolved.origin.to_string();
        let to = resolved.value.clone();
        let mut old: Vec<Value> = std::mem::take(&mut axis.values);
        if !old.contains(&to) {
            let from = old.remove(0);
            set.push(SweepChange::Cap {
                name: axis.name.clone(),
                from,
                to: to.clone(),
                why: why.clone(),
            });
        }
        let dropped = old.into_iter().filter(|v| *v != to);
        set.extend(dropped.map(|value| SweepChange::Drop {
            name: axis.name.clone(),
            value,
            why: why.clone(),
        }));
        axis.fix(to);
    }
    (sweep, set)
}
