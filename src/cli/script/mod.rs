//! Job scripts of the user's own: reading them with all that they call, and what follows for each command.

mod adopted;
mod arguments;
mod command;
mod described;
mod estimated;
mod read;
mod request;
mod submit;
mod unread;
mod version;

pub use adopted::{JobArgs, open};
pub use command::composed;
pub use described::describes;
pub use estimated::{estimated, narrower, without_model};
pub use read::{Read, Shelves, text_of};
pub use request::over;
pub use submit::{NO_TERMINAL, ScriptCommandLine, agreed, dry_run, plan, planned, submit};
