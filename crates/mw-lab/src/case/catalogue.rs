//! The cases of a directory, and those that are embedded in the program.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::case::variant::{Case, CaseKind, Variant};
use crate::error::LabError;
use crate::workdir;

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// Unpacks the embedded cases to a temporary directory.
pub fn unpack() -> Result<TempDir, LabError> {
    let dir = workdir::new()?;
    for (path, contents) in EMBEDDED {
        let file = dir.path().join(path);
        if let Some(parent) = file.parent() {
            std::fs::create_dir_all(parent).map_err(LabError::io(parent))?;
        }
        std::fs::write(&file, contents).map_err(LabError::io(&file))?;
    }
    Ok(dir)
}

/// The file `name` of `lab/guest`, which every guest gets.
pub(crate) fn guest_file(name: &str) -> &'static [u8] {
    let mut files = EMBEDDED.iter();
    let path = format!("guest/{name}");
    files.find(|(other, _)| *other == path).map(|(_, contents)| *contents).unwrap_or_default()
}

/// The variants in the directory `lab` that `names` select (`CASE` or `CASE/VARIANT`), in the order of the
/// directories. Without names, those of `kinds`, or all but the evaluations, which take long and promise
/// nothing.
pub fn select(lab: &Path, names: &[String], kinds: &[CaseKind]) -> Result<Vec<Variant>, LabError> {
    let mut variants: Vec<Variant> = Vec::new();
    for dir in case_dirs(lab)? {
        variants.extend(Case::read(&dir)?.variants);
    }
    for name in names {
        if !variants.iter().any(|v| is_called(v, name)) {
            return Err(LabError::CaseUnknown { wanted: name.clone(), folder: lab.to_path_buf() });
        }
    }
    let is_selected = |kind| match kinds {
        [] => kind != CaseKind::Evaluation || !names.is_empty(),
        _ => kinds.contains(&kind),
    };
    variants.retain(|v| is_selected(v.kind));
    variants.retain(|v| names.is_empty() || names.iter().any(|name| is_called(v, name)));
    Ok(variants)
}

fn is_called(variant: &Variant, name: &str) -> bool {
    match name.split_once('/') {
        Some((case, one)) => case == variant.case && one == variant.name,
        None => name == variant.case,
    }
}

fn case_dirs(lab: &Path) -> Result<Vec<PathBuf>, LabError> {
    let mut dirs = Vec::new();
    for entry in lab.read_dir().map_err(LabError::io(lab))? {
        let path = entry.map_err(LabError::io(lab))?.path();
        if path.join("case.toml").is_file() {
            dirs.push(path);
        }
    }
    dirs.sort();
    Ok(dirs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lab(dir: &Path) {
        for (case, variants) in [("healthy", vec!["quiet", "large"]), ("oom-kill", vec!["firing"])]
        {
            let mut text = "description = 'd'\n[machine]\nkernel = '6.1'\nmemory = '1G'\n\
                            [expect]\nno_finding = true\n"
                .to_owned();
            for variant in variants {
                text += &format!("[variant.{variant}]\nhow = 'h'\n");
            }
            std::fs::create_dir_all(dir.join(case)).unwrap();
            std::fs::write(dir.join(case).join("case.toml"), text).unwrap();
        }
        let evaluation = dir.join("evaluate-x");
        std::fs::create_dir_all(&evaluation).unwrap();
        std::fs::write(evaluation.join("measure.sh"), "").unwrap();
        let text = "description = 'd'\nkind = 'evaluation'\n[machine]\nkernel = '6.1'\n\
                    memory = '1G'\n[evaluation]\nplot = ['x']\n[variant.a]\nhow = 'h'\n";
        std::fs::write(evaluation.join("case.toml"), text).unwrap();
    }

    #[test]
    fn names_select_variants() {
        let dir = tempfile::tempdir().unwrap();
        lab(dir.path());
        let check = |names: &[&str], want: &[&str]| {
            let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
            let got = select(dir.path(), &names, &[]).unwrap();
            let got: Vec<String> = got.iter().map(Variant::full_name).collect();
            assert_eq!(got, want);
        };
        check(&[], &["healthy/large", "healthy/quiet", "oom-kill/firing"]);
        check(&["healthy"], &["healthy/large", "healthy/quiet"]);
        check(&["evaluate-x"], &["evaluate-x/a"]);
        check(&["healthy/large", "oom-kill"], &["healthy/large", "oom-kill/firing"]);
        assert!(select(dir.path(), &["nothing".to_owned()], &[]).is_err());
        assert!(select(dir.path(), &[], &[CaseKind::FieldReport]).unwrap().is_empty());
        assert_eq!(select(dir.path(), &[], &[CaseKind::Evaluation]).unwrap().len(), 1);
    }

    #[test]
    fn cases_are_embedded() {
        let dir = unpack().unwrap();
        let variants = select(dir.path(), &["zone-reclaim".to_owned()], &[]).unwrap();
        assert!(variants.iter().any(|v| v.name == "firing"));
        assert!(!guest_file("init").is_empty() && !guest_file("check.sh").is_empty());
    }
}
