//! The card that a phantom GPU is.

use crate::cli::request::known::LookupTables;
use crate::view::CommandFailure;
use oomctl_base::units::Bytes;
use oomctl_memory::Capacity;
use oomctl_phantom::PhantomCard;

/// The card of a type, with this much memory where that is given, and what CUDA's context takes of it.
pub fn card(
    known: &LookupTables<'_>,
    name: &str,
    memory: Option<Bytes>,
    context: u64,
) -> Result<PhantomCard, CommandFailure> {
    let Some((capability, processors)) = known.processor(name)? else {
        let what = format!("the tables do not have one compute capability for GPU type {name}");
        return Err(CommandFailure::usage(what).hint("`--gpu-type h100`, `a100-40gb`, `l40s`; a table of your own in presets/gpus/ (docs/measure.md)"));
    };
    let total_bytes = match (memory, known.gpu(name)?) {
        (Some(bytes), _) => bytes.0,
        (None, Some((Capacity::Known(text, _), _))) => {
            Bytes::parse(&text)
                .map_err(CommandFailure::configuration)?
                .0
        }
        (None, Some((Capacity::Several(all), _))) => {
            let what = format!("GPU type {name} has {}", all.join(" or "));
            return Err(CommandFailure::usage(what)
                .hint("`--gpu-memory SIZE`, or a name with its memory: a100-40gb"));
        }
        (None, None) => {
            return Err(CommandFailure::usage(format!(
                "no table has GPU type {name}"
            )));
        }
    };
    let bad = || CommandFailure::configuration(format!("capability {capability} of {name}"));
    let (major, minor) = capability.split_once('.').ok_or_else(bad)?;
    let number = |text: &str| text.parse::<u8>().map_err(|_| bad());
    Ok(PhantomCard {
        name: name.to_owned(),
        total_bytes,
        context_bytes: context,
        capability: (number(major)?, number(minor)?),
        processors,
    })
}
