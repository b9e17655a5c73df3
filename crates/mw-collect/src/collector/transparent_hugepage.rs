//! /sys/kernel/mm/transparent_hugepage.

use super::hugepages::page_bytes;
use crate::source::Source;
use mw_model::{Missing, Thp, ThpSize};
use mw_proc::choice::Choice;
use std::collections::BTreeMap;

const DIR: &str = "/sys/kernel/mm/transparent_hugepage";

pub(crate) fn collect(source: &Source) -> Result<Thp, Missing> {
    let choice = |file: &str| source.parse(&format!("{DIR}/{file}"), Choice::parse);
    let enabled = choice("enabled")?;
    Ok(Thp {
        enabled,
        defrag: choice("defrag")?,
        pmd_bytes: source.number(&format!("{DIR}/hpage_pmd_size")).ok(),
        shmem_enabled: choice("shmem_enabled").ok(),
        khugepaged: khugepaged(source),
        sizes: sizes(source),
    })
}

fn khugepaged(source: &Source) -> BTreeMap<String, u64> {
    let dir = format!("{DIR}/khugepaged");
    let names = source.list(&dir).unwrap_or_default();
    names
        .into_iter()
        .filter_map(|name| {
            let value = source.number(&format!("{dir}/{name}")).ok()?;
            Some((name, value))
        })
        .collect()
}

fn sizes(source: &Source) -> Vec<ThpSize> {
    let names = source.list(DIR).unwrap_or_default();
    let mut sizes: Vec<ThpSize> = names
        .iter()
        .filter_map(|name| {
            let choice =
                |file: &str| source.parse(&format!("{DIR}/{name}/{file}"), Choice::parse).ok();
            let (enabled, shmem_enabled) = (choice("enabled")?, choice("shmem_enabled"));
            Some(ThpSize { page_bytes: page_bytes(name)?, enabled, shmem_enabled })
        })
        .collect();
    sizes.sort_unstable_by_key(|size| size.page_bytes);
    sizes
}
