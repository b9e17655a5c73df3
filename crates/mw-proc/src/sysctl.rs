//! The output of `sysctl -a` and the files `/etc/sysctl.conf` and `sysctl.d/*.conf`.

use crate::scan;

/// The most settings that are read.
pub const MAX_SETTINGS: usize = 1 << 18;

/// The settings in their order, names with dots; of two with one name, the later counts.
///
/// Blank lines, comments (`#`, `;`) and lines without `=` are left out, the last because people
/// write these files and `sysctl -a` mixes complaints in. A `-` before the name, which says that
/// failing is no error, is taken away. What comes after [`MAX_SETTINGS`] is not read.
#[must_use]
pub fn parse_dump(text: &[u8]) -> Vec<(String, String)> {
    scan::lines(text).filter_map(|line| setting(line.text)).take(MAX_SETTINGS).collect()
}

fn setting(text: &[u8]) -> Option<(String, String)> {
    let text = text.trim_ascii();
    if text.starts_with(b"#") || text.starts_with(b";") {
        return None;
    }
    let (name, value) = scan::split_once(text, b'=')?;
    let name = name.trim_ascii();
    let name = name.strip_prefix(b"-").unwrap_or(name).trim_ascii();
    if name.is_empty() {
        return None;
    }
    Some((dotted(&scan::lossy(name)), scan::lossy(value.trim_ascii())))
}

/// If the first separator is a slash, slashes separate and dots are part of a name, as
/// `sysctl.conf(5)` has it: `net/ipv4/conf/eth0.7/rp_filter`.
fn dotted(name: &str) -> String {
    let slashes_separate = name.chars().find(|c| matches!(c, '/' | '.')) == Some('/');
    if !slashes_separate {
        return name.to_owned();
    }
    let swap = |c| match c {
        '/' => '.',
        '.' => '/',
        other => other,
    };
    name.chars().map(swap).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(&str, &str)]) {
        let found = parse_dump(text.as_bytes());
        let found: Vec<_> = found.iter().map(|(key, value)| (&**key, &**value)).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn output() {
        check(
            "vm.lowmem_reserve_ratio = 256\t256\t32\t0\t0\nvm.nr_hugepages = 0\nkernel.domainname = \n",
            &[
                ("vm.lowmem_reserve_ratio", "256\t256\t32\t0\t0"),
                ("vm.nr_hugepages", "0"),
                ("kernel.domainname", ""),
            ],
        );
        check("sysctl: permission denied on key 'fs.protected'\nvm.a = 1\n", &[("vm.a", "1")]);
    }

    #[test]
    fn files() {
        check(
            "# comment = 1\n; comment = 2\n\n -vm.a=1\nvm/zone_reclaim_mode = 0\n = 3\n-=4",
            &[("vm.a", "1"), ("vm.zone_reclaim_mode", "0")],
        );
        check("net/ipv4/conf/eth0.7/x = a=b", &[("net.ipv4.conf.eth0/7.x", "a=b")]);
        check("net.ipv4.conf.eth0/7.x = 1", &[("net.ipv4.conf.eth0/7.x", "1")]);
    }
}
