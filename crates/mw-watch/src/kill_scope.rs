//! Signals that are kept. Pure.
//!
//! An operator wants to know who ended a service: the kernel, a daemon, another user, root. A user who ends his own
//! processes is neither asked for nor rare: shells, builds, test runners and browsers do so all day, and a user may do so
//! thousands of times a second. Such signals are kept only where the process is of a probed service.

use mw_collect::service::PartyFacts;

/// True if a signal is kept. `None` is a process that had ended before it could be read.
pub(crate) fn is_kept(
    is_of_kernel: bool,
    is_of_service: bool,
    sender: Option<&PartyFacts>,
    victim: Option<&PartyFacts>,
) -> bool {
    if is_of_kernel || is_of_service {
        return true;
    }
    // Without the sender nobody can tell whose it was.
    let Some(sender) = sender else { return true };
    // The kernel lets other senders end processes of their own user alone, but for what changes its user (setuid).
    sender.may_kill_others || victim.is_some_and(|victim| victim.party.uid != sender.party.uid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_model::KillParty;

    fn facts(uid: u32) -> PartyFacts {
        PartyFacts {
            party: KillParty { uid: Some(uid), ..KillParty::default() },
            may_kill_others: uid == 0,
            ..PartyFacts::default()
        }
    }

    /// Promise (Kills): A user's kills of his own processes are kept only of probed services.
    #[test]
    fn own_processes_are_nobody_elses_business() {
        let (user, root) = (facts(1000), facts(0));
        let kept = |sender, victim| is_kept(false, false, sender, victim);
        assert!(!kept(Some(&user), Some(&user)));
        assert!(!kept(Some(&user), None), "it cannot be another user's");
        assert!(kept(Some(&user), Some(&root)));
        assert!(is_kept(false, true, Some(&user), Some(&user)), "of a probed service");
        assert!(is_kept(true, false, Some(&user), Some(&user)), "by the kernel");
        assert!(
            kept(None, Some(&user)) && kept(Some(&root), Some(&user)) && kept(Some(&root), None)
        );
        assert!(kept(Some(&root), Some(&root)));
        let oomd = PartyFacts { may_kill_others: true, ..facts(990) };
        assert!(kept(Some(&oomd), Some(&user)));
    }
}
