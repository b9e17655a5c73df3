//! The namespaces that this process is in.

use mw_model::Namespace;
use mw_proc::version::KernelVersion;
use mw_sys::namespace_number;

/// From this version on the first network and mount namespaces have fixed numbers.
const ALL_FIXED: KernelVersion = KernelVersion::new(6, 18, 0);

/// The namespaces of this process that are not the machine's first. Whether one is that has no fixed number, on kernels
/// before 6.18, is told by that of process 1; where that may not be read, it counts as the first.
pub fn nested_namespaces() -> Vec<Namespace> {
    let version = KernelVersion::parse(rustix::system::uname().release().to_bytes());
    let are_fixed = version.is_ok_and(|version| version >= ALL_FIXED);
    nested(are_fixed, |process, link| namespace_number(process, link).ok())
}

fn nested(are_fixed: bool, number: impl Fn(&str, &str) -> Option<u32>) -> Vec<Namespace> {
    let is_nested = |namespace: &Namespace| {
        let first = if are_fixed || namespace.has_fixed_number() {
            Some(namespace.first_number())
        } else {
            number("1", namespace.link())
        };
        // Kernels without this kind have no link.
        first.zip(number("self", namespace.link())).is_some_and(|(first, own)| first != own)
    };
    Namespace::ALL.into_iter().filter(is_nested).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_namespaces_are_known_by_number_or_by_process_1() {
        let first = |_: &str, link: &str| {
            Namespace::ALL.iter().find(|of| of.link() == link).map(|of| of.first_number())
        };
        assert_eq!(nested(true, first), []);
        let old = |process: &str, link: &str| match (process, link) {
            (_, "time") => None,
            ("self", "net") => Some(4_026_532_000),
            (_, "net" | "mnt") => Some(4_026_531_840),
            _ => first(process, link),
        };
        assert_eq!(nested(false, old), [Namespace::Network]);
        assert_eq!(nested(true, old), [Namespace::Mount, Namespace::Network]);
        let hidden =
            |process: &str, link: &str| (process == "self").then(|| first("self", link))?;
        assert_eq!(nested(false, hidden), []);
        assert_eq!(nested(false, |_, _| Some(5)).len(), 4, "without a number to compare with");
    }
}
