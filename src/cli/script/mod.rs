//! Job scripts of the user's own: reading them with all that they call, and what follows for each command.

mod absent;
mod adopted;
mod agree;
mod arguments;
mod as_submitted;
mod command;
mod described;
mod estimated;
mod measuring;
mod no_knob;
mod outputs;
mod read;
mod request;
mod submit;
mod submitted;
mod unread;
mod unused;
mod version;

pub use adopted::{created, free, logs, open, ours, told};
pub use agree::{agreed, shown_task};
pub use as_submitted::{as_submitted, something_changed};
pub use command::{composed, taken};
pub use described::{describes, is_for_estimate};
pub use estimated::{estimate_of, estimated, left_open};
pub use no_knob::knob_named;
pub use outputs::{foreign_outputs, outputs_of};
pub use read::{Read, Shelves, no_script, text_of};
pub use request::{over, request};
pub use submit::{
    NO_TERMINAL, ScriptCommandLine, dry_run, has_its_scheduler, plan, planned, submit,
};
pub use submitted::{JobArgs, read};
pub use unused::tell_ours;
