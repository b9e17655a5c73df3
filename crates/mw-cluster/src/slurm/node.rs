//! Output of `scontrol show node NAME`: names and values, several in a line. The text of a reason or a comment can
//! look like other fields; each of those has a line of its own. That is why the lines are not joined by `--oneliner`.

/// A node as slurmctld has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlurmNode {
    /// The base state, such as IDLE, MIXED or DOWN.
    base: String,
    /// Flags of the state, such as DRAIN or NOT_RESPONDING.
    flags: Vec<String>,
    /// The reason that it is drained or down, without the user and the time.
    pub reason: Option<String>,
    /// A text for jobs to choose nodes by.
    pub extra: Option<String>,
}

impl SlurmNode {
    /// Reads the record of one node; `None` where it has no state.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(bytes);
        let fields = || text.lines().map(str::trim_start);
        let state = fields().find_map(|line| line.strip_prefix("State="))?;
        let state = state.split(' ').next()?;
        let mut words = state.split('+').map(|word| word.trim_end_matches(MARKS).to_uppercase());
        let base = words.next().filter(|base| !base.is_empty())?;
        let text = |field: &str| {
            let value = fields().find_map(|line| line.strip_prefix(field))?;
            let value = if field == REASON { without_author(value) } else { value };
            Some(value.trim().to_owned()).filter(|value| !value.is_empty())
        };
        let (reason, extra) = (text(REASON), text("Extra="));
        Some(Self { base, flags: words.collect(), reason, extra })
    }

    fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|have| have == flag)
    }

    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.has("DRAIN")
    }

    /// True if it gets no jobs in any case: it is down, or an administrator expects it to fail.
    #[must_use]
    pub fn is_out(&self) -> bool {
        self.base == "DOWN" || self.has("FAIL")
    }

    /// True if no job is on it.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.base == "IDLE" && !self.has("COMPLETING")
    }
}

const REASON: &str = "Reason=";

/// Suffixes that Slurm appends to a state: no response (*), power saving, maintenance, reboot and plans.
const MARKS: [char; 9] = ['*', '~', '#', '!', '%', '$', '@', '^', '-'];

/// Slurm adds ` [USER@TIME]`.
fn without_author(text: &str) -> &str {
    let author = text.trim_end().strip_suffix(']').and_then(|text| text.rsplit_once('['));
    match author {
        Some((reason, author)) if author.contains('@') => reason,
        _ => text,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Printed by Slurm 22.05.
    const DRAINED: &[u8] = include_bytes!("node/drained.txt");

    fn node(state: &str, rest: &str) -> SlurmNode {
        let text = format!("NodeName=n1 Arch=x86_64\n   State={state} Weight=1\n{rest}");
        SlurmNode::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_drained_node_of_slurm_22_05_is_read() {
        let node = SlurmNode::parse(DRAINED).unwrap();
        assert!(node.is_drained() && node.is_idle() && !node.is_out());
        let reason = r#"memwright: fragmented-node: a b%c "x" (y) >= 3"#;
        assert_eq!(node.reason.as_deref(), Some(reason));
    }

    #[test]
    fn states_are_told_apart() {
        for (state, drained, idle, out) in [
            ("IDLE", false, true, false),
            ("IDLE*", false, true, false),
            ("IDLE+DRAIN+NOT_RESPONDING", true, true, false),
            ("IDLE+COMPLETING+DRAIN", true, false, false),
            ("ALLOCATED+DRAIN", true, false, false),
            ("MIXED", false, false, false),
            ("DOWN*+DRAIN", true, false, true),
            ("IDLE+FAIL", false, true, true),
        ] {
            let node = node(state, "");
            assert_eq!(
                (node.is_drained(), node.is_idle(), node.is_out()),
                (drained, idle, out),
                "{state}"
            );
        }
    }

    #[test]
    fn text_that_looks_like_a_field_is_text() {
        let node = node(
            "ALLOCATED",
            "   Comment=x State=IDLE+DRAIN Reason=memwright: a: b\n   Extra={\"mem\":4}\n   Reason=disk [sda] State=IDLE [root@2026-11-25T03:34:11]\n",
        );
        assert!(!node.is_drained() && !node.is_idle());
        assert_eq!(node.reason.as_deref(), Some("disk [sda] State=IDLE"));
        assert_eq!(node.extra.as_deref(), Some("{\"mem\":4}"));
    }

    #[test]
    fn what_is_no_record_is_none() {
        for text in ["", "State=", "State= x", "Node n1 not found", "   State=+DRAIN x"] {
            assert_eq!(SlurmNode::parse(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(
            at in 0..DRAINED.len(),
            count in 0..200_usize,
            bytes in prop::collection::vec(prop_oneof![any::<u8>(), prop::sample::select(&b"=+[]@ \n"[..])], 0..200),
        ) {
            let mut text = DRAINED.to_vec();
            text.splice(at..(at + count).min(DRAINED.len()), bytes);
            if let Some(node) = SlurmNode::parse(&text) {
                prop_assert!(!node.base.is_empty());
                prop_assert!(node.reason.is_none_or(|reason| !reason.contains('\n')));
            }
        }
    }
}
