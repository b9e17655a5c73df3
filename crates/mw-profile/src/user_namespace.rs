//! Root of a user namespace, whose capabilities count there alone (user_namespaces(7)).

use mw_model::{Missing, Namespace};
use mw_sys::namespace_number;
use std::fmt::Display;

/// The reason why `what` is refused in a user namespace below the initial one; `None` in the initial one.
pub(crate) fn refusal(what: &str, error: impl Display) -> Option<Missing> {
    let number = namespace_number("self", Namespace::User.link()).ok()?;
    let why = format!(
        "{error}: root of a user namespace is an ordinary user to the kernel; needs CAP_PERFMON and \
         CAP_DAC_READ_SEARCH in the initial user namespace, as on the host"
    );
    (number != Namespace::User.first_number()).then(|| Missing::skipped(what, why))
}
