//! How a watch is shown: on a screen of its own, or in lines.

use std::io::IsTerminal;

use crate::drive::{Observer, Supervisor, WakeSources};
use crate::view::heartbeat::Attended;
use crate::view::live::{self, Live};
use crate::view::story::Story;

/// Longest silence off a terminal.
const HEARTBEAT_S: u64 = 300;

/// How a watch is shown.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct Showing {
    /// Print lines instead of the live view
    #[arg(long, hide_short_help = true)]
    plain: bool,
    /// Draw the live view in ASCII characters
    #[arg(long, hide_short_help = true)]
    ascii: bool,
}

impl Showing {
    /// In lines, if that is so.
    pub fn plain_if(self, plain: bool) -> Self {
        Self {
            plain: self.plain || plain,
            ..self
        }
    }

    /// Shows what happens while `driven` runs. In lines, something is said every so many seconds, 0 for never.
    pub fn show<T>(
        self,
        supervisor: &mut Supervisor,
        sources: &WakeSources,
        every_s: Option<u64>,
        driven: impl FnOnce(&mut Supervisor, &mut dyn Observer) -> T,
    ) -> T {
        if !self.plain && live::is_possible() {
            // A terminal that cannot be had is no reason not to watch.
            if let Ok(mut live) = Live::open(supervisor, sources, self.ascii) {
                let end = driven(supervisor, &mut live);
                live.close();
                return end;
            }
        }
        let mut story = Story::new(supervisor.runs().count() > 1).summed();
        let every_s = match every_s {
            Some(0) => None,
            None if std::io::stderr().is_terminal() => None,
            asked => Some(asked.unwrap_or(HEARTBEAT_S)),
        };
        let end = driven(supervisor, &mut Attended::new(&mut story, every_s));
        story.close();
        end
    }
}
