//! The file format of speedscope: frames once, then a list of stacks and their weights a profile.

use mw_model::Profile;
use serde_json::{Value, json};
use std::collections::HashMap;

/// The format, as it names itself.
const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

/// Profiles of one moment, each with its name; the first is the one that is shown.
///
/// # Errors
/// There is no memory for it.
pub fn render(name: &str, profiles: &[(&str, &Profile)]) -> serde_json::Result<String> {
    let mut frames = FrameTable::default();
    let profiles: Vec<Value> =
        profiles.iter().map(|(name, profile)| sampled(name, profile, &mut frames)).collect();
    let frames: Vec<Value> = frames.names.iter().map(|name| json!({ "name": name })).collect();
    serde_json::to_string(&json!({
        "$schema": SCHEMA,
        "name": name,
        "exporter": concat!("memwright@", env!("CARGO_PKG_VERSION")),
        "activeProfileIndex": 0,
        "shared": { "frames": frames },
        "profiles": profiles,
    }))
}

fn sampled(name: &str, profile: &Profile, frames: &mut FrameTable) -> Value {
    let stack = |stack: &mw_model::Stack| -> Vec<usize> {
        let task = frames.place(&format!("task {}", stack.task));
        let functions = profile.names(stack).map(|name| frames.place(name));
        [task].into_iter().chain(functions).collect()
    };
    let samples: Vec<Vec<usize>> = profile.stacks.iter().map(stack).collect();
    let weights: Vec<u64> = profile.stacks.iter().map(|stack| stack.samples).collect();
    json!({
        "type": "sampled",
        "name": name,
        "unit": "none",
        "startValue": 0,
        "endValue": profile.samples(),
        "samples": samples,
        "weights": weights,
    })
}

/// Names of frames, each once.
#[derive(Default)]
struct FrameTable {
    names: Vec<String>,
    places: HashMap<String, usize>,
}

impl FrameTable {
    fn place(&mut self, name: &str) -> usize {
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        let place = self.names.len();
        self.names.push(name.to_owned());
        self.places.insert(name.to_owned(), place);
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::example;

    #[test]
    fn it_is_as_the_format_says() {
        let profile = example();
        let text = render("stall", &[("during", &profile), ("before", &profile)]).unwrap();
        let file: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(file["$schema"], SCHEMA);
        let frames = file["shared"]["frames"].as_array().unwrap();
        assert_eq!(frames.len(), 7, "three tasks, three functions, one without a name");
        for profile in file["profiles"].as_array().unwrap() {
            assert_eq!((&profile["type"], &profile["unit"]), (&json!("sampled"), &json!("none")));
            let samples = profile["samples"].as_array().unwrap();
            let weights = profile["weights"].as_array().unwrap();
            assert_eq!(samples.len(), weights.len());
            let sum: u64 = weights.iter().map(|weight| weight.as_u64().unwrap()).sum();
            assert_eq!(profile["endValue"], sum);
            for frame in samples.iter().flat_map(|stack| stack.as_array().unwrap()) {
                assert!((frame.as_u64().unwrap() as usize) < frames.len());
            }
        }
        let name = |at: &Value| frames[at.as_u64().unwrap() as usize]["name"].clone();
        let first = file["profiles"][0]["samples"][0].as_array().unwrap();
        let names: Vec<Value> = first.iter().map(name).collect();
        assert_eq!(names, ["task mysqld", "do_syscall_64", "__alloc_pages", "compaction_alloc"]);
    }
}
