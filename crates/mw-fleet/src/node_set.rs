//! Sets of nodes as Slurm and ClusterShell write them: `n[001-040,44],gpu3`.

use std::collections::{BTreeMap, BTreeSet};

/// A set that is larger is taken for a typing error.
const MAX_NODES: usize = 200_000;

/// The longest name, as of DNS.
const MAX_NAME_BYTES: usize = 253;

/// The names in a set, in its order, each once.
///
/// # Errors
/// What is wrong with it, in words.
pub(crate) fn expand(set: &str) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    let mut seen = BTreeSet::new();
    for pattern in patterns(set)? {
        for name in names_of(pattern)? {
            if !is_name(&name) {
                return Err(format!("invalid name of a node '{name}'"));
            }
            if seen.insert(name.clone()) {
                names.push(name);
            }
            if names.len() > MAX_NODES {
                return Err(format!("more than {MAX_NODES} nodes"));
            }
        }
    }
    if names.is_empty() { Err("no node".to_owned()) } else { Ok(names) }
}

/// Characters of the name or the address of a node: it becomes an argument of another program.
pub(crate) fn is_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    let first = name.chars().next();
    name.len() <= MAX_NAME_BYTES
        && first.is_some_and(|c| c.is_ascii_alphanumeric() || c == ':')
        && name.chars().all(is_part)
}

/// Splits at the commas outside of brackets.
fn patterns(set: &str) -> Result<Vec<&str>, String> {
    let mut found = Vec::new();
    let (mut depth, mut start) = (0_u32, 0);
    for (at, c) in set.char_indices() {
        match c {
            '[' if depth == 0 => depth = 1,
            ']' if depth == 1 => depth = 0,
            '[' | ']' => return Err(format!("misplaced '{c}' in '{set}'")),
            ',' if depth == 0 => {
                found.extend(set.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    if depth > 0 {
        return Err(format!("no ']' in '{set}'"));
    }
    found.extend(set.get(start..));
    Ok(found.into_iter().map(str::trim).filter(|pattern| !pattern.is_empty()).collect())
}

/// The names of one pattern: each bracket multiplies them.
fn names_of(pattern: &str) -> Result<Vec<String>, String> {
    let Some((head, rest)) = pattern.split_once('[') else { return Ok(vec![pattern.to_owned()]) };
    let (ranges, tail) = rest.split_once(']').unwrap_or((rest, ""));
    let (numbers, tails) = (numbers(ranges)?, names_of(tail)?);
    if numbers.len().saturating_mul(tails.len()) > MAX_NODES {
        return Err(format!("more than {MAX_NODES} nodes"));
    }
    let named =
        |number: &String| tails.iter().map(|tail| format!("{head}{number}{tail}")).collect();
    Ok(numbers.iter().flat_map(|number| -> Vec<String> { named(number) }).collect())
}

/// The numbers of `001-040,44`, as wide as their first.
fn numbers(ranges: &str) -> Result<Vec<String>, String> {
    let mut numbers = Vec::new();
    for range in ranges.split(',') {
        let wrong = || format!("invalid range '{range}' (use for example [1-40,44])");
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let width = if first.starts_with('0') { first.len() } else { 0 };
        if width > MAX_NAME_BYTES {
            // The formatter panics with more than 65,535.
            return Err(format!("a number of more than {MAX_NAME_BYTES} digits"));
        }
        let number = |text: &str| text.parse::<u32>().map_err(|_| wrong());
        let (first, last) = (number(first)?, number(last)?);
        let count = last.checked_sub(first).ok_or_else(wrong)?;
        if count as usize + numbers.len() >= MAX_NODES {
            return Err(format!("more than {MAX_NODES} nodes"));
        }
        numbers.extend((first..=last).map(|number| format!("{number:0width$}")));
    }
    Ok(numbers)
}

/// Writes names as one set: those that differ in one number are one pattern.
pub(crate) fn fold(names: &[String]) -> String {
    let mut groups: BTreeMap<(&str, usize, &str), BTreeSet<u32>> = BTreeMap::new();
    let mut plain = BTreeSet::new();
    for name in names {
        match split(name) {
            Some((head, digits, tail, number)) => {
                let is_padded = digits.len() > 1 && digits.starts_with('0');
                let width = if is_padded { digits.len() } else { 0 };
                groups.entry((head, width, tail)).or_default().insert(number);
            }
            None => {
                plain.insert(name.as_str());
            }
        }
    }
    let mut parts: Vec<String> = plain.into_iter().map(str::to_owned).collect();
    for ((head, width, tail), numbers) in groups {
        let ranges = ranges(&numbers);
        let written: Vec<String> = ranges.iter().map(|range| write(*range, width)).collect();
        let is_one = matches!(ranges.as_slice(), [(first, last)] if first == last);
        let written = written.join(",");
        parts.push(match is_one {
            true => format!("{head}{written}{tail}"),
            false => format!("{head}[{written}]{tail}"),
        });
    }
    parts.sort();
    parts.join(",")
}

/// The last number in the host's own name: what is before it, its digits, what follows, the number. None where the
/// name is an address, or has none.
fn split(name: &str) -> Option<(&str, &str, &str, u32)> {
    let host = name.split('.').next()?;
    if !host.starts_with(|c: char| c.is_ascii_alphabetic()) || name.contains(':') {
        return None;
    }
    let end = host.rfind(|c: char| c.is_ascii_digit())? + 1;
    let head = name.get(..end)?.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = name.get(head.len()..end)?;
    Some((head, digits, name.get(end..)?, digits.parse().ok()?))
}

/// Runs of numbers that follow each other.
fn ranges(numbers: &BTreeSet<u32>) -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    ranges
}

fn write((first, last): (u32, u32), width: usize) -> String {
    match first == last {
        true => format!("{first:0width$}"),
        false => format!("{first:0width$}-{last:0width$}"),
    }
}

#[cfg(test)]
#[path = "node_set/tests.rs"]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
