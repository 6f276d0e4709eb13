//! Job scripts of the user's own: reading them with all that they call, and what follows for each command.

mod adopted;
mod adopted_array;
mod arguments;
mod array;
mod command;
mod described;
mod estimated;
mod read;
mod request;
mod submit;
mod version;

pub use adopted::{JobArgs, open};
pub use adopted_array::take_array;
pub use array::SubmitOptions;
pub use command::composed;
pub use described::describes;
pub use estimated::estimated;
pub use read::{Read, Shelves, text_of};
pub use request::over;
pub use submit::{ScriptCommandLine, agreed, dry_run, plan, planned, submit};
