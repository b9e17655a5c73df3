//! No input makes a parser panic: every parser is fed arbitrary bytes and mutated real text.
//!
//! The bulk comes from a plain loop with a small generator; proptest adds cases that it can shrink.

use proptest::prelude::*;

#[path = "common/mod.rs"]
mod common;

use common::{PARSERS, Parser};

/// What is fed in all is this many times the parsers, and more than a million.
const INPUTS_PER_PARSER: usize = 34_000;

/// SplitMix64: fast, and the same inputs on every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// What breaks parsers: numbers at and beyond the limits, separators, other scripts.
const SPLINTERS: &[&[u8]] = &[
    b"18446744073709551615",
    b"18446744073709551616",
    b"99999999999999999999999999999999999999999999",
    b"-9223372036854775808",
    b"9223372036854775808",
    b"4294967295",
    b"0-4294967295",
    b"-1",
    b"1e309",
    b"0.",
    b"\0",
    b"\n",
    b"\n\n",
    b"\r\n",
    b" ",
    b"\t",
    b":",
    b"=",
    b",",
    b"-",
    b"%",
    b"\"",
    b"[x]",
    b"(",
    b")",
    b"\\04",
    b"\\777",
    b" kB",
    b"Node ",
    b"Node 0, zone ",
    b"\xff\xfe",
    "\u{130}\u{0660}".as_bytes(),
];

/// The bytes that arbitrary text is made of, mostly.
const ALPHABET: &[u8] = b"0123456789 \n\t:=,-./%[]()kBKMGnode_x\\\"#\0\xff";

/// The text to mutate: a piece of whole lines most of the time, since much work on a long text
/// teaches no more than a little work on a short one.
fn piece<'a>(random: &mut Random, real: &'a [u8]) -> &'a [u8] {
    if random.below(16) == 0 || real.len() < 600 {
        return real;
    }
    let from = if random.below(2) == 0 { 0 } else { random.below(real.len()) };
    let to = (from + 100 + random.below(500)).min(real.len());
    let line_at = |at: usize| real[..at].iter().rposition(|&b| b == b'\n').map_or(0, |nl| nl + 1);
    &real[line_at(from)..line_at(to).max(line_at(from))]
}

fn mutate(random: &mut Random, text: &mut Vec<u8>) {
    let at = random.below(text.len() + 1);
    match random.below(6) {
        0 => text.truncate(at),
        1 => {
            if let Some(byte) = text.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        2 => {
            let splinter = SPLINTERS[random.below(SPLINTERS.len())];
            text.splice(at..at, splinter.iter().copied());
        }
        3 => {
            let end =
                text[at..].iter().position(|&b| b == b'\n').map_or(text.len(), |n| at + n + 1);
            text.drain(at..end);
        }
        4 => {
            let end =
                text[at..].iter().position(|&b| b == b'\n').map_or(text.len(), |n| at + n + 1);
            let line = text[at..end].to_vec();
            text.splice(at..at, line);
        }
        _ => {
            let digits = text[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            let splinter = SPLINTERS[random.below(9)];
            text.splice(at..at + digits, splinter.iter().copied());
        }
    }
}

fn arbitrary(random: &mut Random, text: &mut Vec<u8>) {
    text.clear();
    for _ in 0..random.below(200) {
        let any = random.next();
        let byte = ALPHABET[random.below(ALPHABET.len())];
        text.push(if any.is_multiple_of(8) { (any >> 8) as u8 } else { byte });
    }
}

/// Feeds one parser and says how many inputs it got.
fn feed(parser: &Parser, seed: u64) -> usize {
    let mut random = Random(seed);
    let mut text = Vec::new();
    for n in 0..INPUTS_PER_PARSER {
        if n % 4 == 0 {
            arbitrary(&mut random, &mut text);
        } else {
            text.clear();
            text.extend_from_slice(piece(&mut random, parser.real));
            for _ in 0..=random.below(4) {
                mutate(&mut random, &mut text);
            }
        }
        (parser.parse)(&text);
    }
    for end in 0..=parser.real.len() {
        (parser.parse)(&parser.real[..end]);
    }
    INPUTS_PER_PARSER + parser.real.len() + 1
}

#[test]
fn real_text_is_read() {
    for parser in PARSERS {
        assert!((parser.parse)(parser.real), "{}", parser.name);
    }
}

/// Promise (Checking): No input makes a parser panic: more than a million arbitrary and mutated files.
#[test]
fn a_million_inputs_and_no_panic() {
    let mut total = 0;
    for (parser, seed) in PARSERS.iter().zip(1..) {
        let inputs = feed(parser, seed);
        println!("{:<20}{inputs:>10} inputs", parser.name);
        total += inputs;
    }
    println!("{:<20}{total:>10} inputs", "all");
    assert!(total >= 1_000_000);
}

/// A mutation that proptest can shrink.
#[derive(Debug, Clone)]
enum Change {
    Cut(prop::sample::Index),
    Set(prop::sample::Index, u8),
    Insert(prop::sample::Index, prop::sample::Index),
}

fn change() -> impl Strategy<Value = Change> {
    let at = || any::<prop::sample::Index>();
    prop_oneof![
        at().prop_map(Change::Cut),
        (at(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        (at(), at()).prop_map(|(at, what)| Change::Insert(at, what)),
    ]
}

fn change_text(text: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Cut(at) => text.truncate(at.index(text.len() + 1)),
        Change::Set(at, byte) if !text.is_empty() => {
            let at = at.index(text.len());
            text[at] = *byte;
        }
        Change::Set(..) => {}
        Change::Insert(at, what) => {
            let at = at.index(text.len() + 1);
            text.splice(at..at, what.get(SPLINTERS).iter().copied());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(2000)
    })]

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for parser in PARSERS {
            (parser.parse)(&bytes);
        }
    }

    #[test]
    fn changed_text(
        parser in 0..PARSERS.len(),
        changes in prop::collection::vec(change(), 1..6),
    ) {
        let parser = &PARSERS[parser];
        let mut text = parser.real.to_vec();
        for change in &changes {
            change_text(&mut text, change);
        }
        (parser.parse)(&text);
    }
}
