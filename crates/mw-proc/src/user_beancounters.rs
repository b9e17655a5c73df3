//! `/proc/user_beancounters`: what OpenVZ and Virtuozzo (kernels 2.6.32 and 3.10) let a container have, and how often it
//! was refused.

use crate::error::{ParseError, Problem};
use crate::scan;

/// The most lines that are read: some 24 of each container.
pub const MAX_COUNTERS: usize = 65_536;

/// A resource of one container.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Beancounter {
    /// The container; 0 for the host.
    pub container: u64,
    /// As the kernel names it: `privvmpages`.
    pub resource: String,
    /// In pages where the name ends so, in bytes or a number otherwise.
    pub held: u64,
    pub barrier: u64,
    pub limit: u64,
    /// Requests that were refused since the container started.
    pub refused: u64,
}

/// Reads `[uid:] resource held maxheld barrier limit failcnt`, a resource a line, after two lines of headings.
///
/// # Errors
/// When a line is cut or is none of that form.
pub fn parse(text: &[u8]) -> Result<Vec<Beancounter>, ParseError> {
    let mut counters = Vec::new();
    let mut container = 0;
    for line in scan::lines(text) {
        line.whole()?;
        let words = line.text.trim_ascii();
        if words.starts_with(b"Version:") || words.starts_with(b"uid") {
            continue;
        }
        if counters.len() >= MAX_COUNTERS {
            return Err(line.error(Problem::TooMany("counters")));
        }
        let rest = match scan::split_once(words, b':') {
            Some((uid, rest)) => {
                container = line.at(scan::parse_u64(uid.trim_ascii()))?;
                rest
            }
            None => words,
        };
        counters.push(line.at(counter(container, rest))?);
    }
    Ok(counters)
}

fn counter(container: u64, text: &[u8]) -> Result<Beancounter, Problem> {
    let mut fields = scan::fields(text);
    // Commands for the reader are made of it.
    let is_name = |field: &&[u8]| field.iter().all(u8::is_ascii_lowercase);
    let resource = fields.next().filter(is_name).ok_or(Problem::Expected("a resource"))?;
    let mut number = || scan::parse_u64(fields.next().ok_or(Problem::Truncated)?);
    let (held, _, barrier, limit, refused) =
        (number()?, number()?, number()?, number()?, number()?);
    let resource = String::from_utf8_lossy(resource).into_owned();
    Ok(Beancounter { container, resource, held, barrier, limit, refused })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_below_a_container_are_its_own() {
        let text = b"Version: 2.5\n       uid  resource held maxheld barrier limit failcnt\n     \
                     3580:  kmemsize 20 21 2147483648 2147483648 0\n  privvmpages 128000 131072 131072 \
                     131072 1021\n    0: numproc 9 9 9223372036854775807 9223372036854775807 0\n";
        let counters = parse(text).unwrap();
        let second = Beancounter {
            container: 3580,
            resource: "privvmpages".to_owned(),
            held: 128_000,
            barrier: 131_072,
            limit: 131_072,
            refused: 1021,
        };
        assert_eq!((counters.len(), &counters[1]), (3, &second));
        assert_eq!(counters[2].container, 0);
        let problem = |text: &[u8]| parse(text).unwrap_err().problem;
        assert_eq!(problem(b"7: numproc 1 2 3\n"), Problem::Truncated);
        for text in [&b"7:\n"[..], b"7: $(reboot) 1 2 3 4 5\n"] {
            assert_eq!(problem(text), Problem::Expected("a resource"));
        }
    }
}
