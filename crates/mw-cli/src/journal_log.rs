//! What a service says: a line each on standard error, with the priority in front where the journal
//! reads it (sd-daemon(3)).

use crate::terminal::tell;

#[derive(Debug, Clone, Copy)]
pub(crate) struct JournalLog {
    journal: bool,
}

impl JournalLog {
    /// Standard error, which systemd connects to the journal.
    pub(crate) fn to_stderr() -> Self {
        Self { journal: std::env::var_os("JOURNAL_STREAM").is_some() }
    }

    pub(crate) fn error(self, line: &str) {
        self.write(3, line);
    }

    pub(crate) fn warning(self, line: &str) {
        self.write(4, line);
    }

    pub(crate) fn notice(self, line: &str) {
        self.write(5, line);
    }

    fn write(self, priority: u8, line: &str) {
        if self.journal {
            tell(format_args!("<{priority}>{line}"));
        } else {
            tell(line);
        }
    }
}
