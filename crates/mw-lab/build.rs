//! Makes the list of the files under lab/ that become part of the program.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let lab = Path::new("../../lab").canonicalize()?;
    println!("cargo::rerun-if-changed={}", lab.display());
    let mut files = Vec::new();
    collect(&lab, &mut files)?;
    // The blind trials are no cases; `cargo xtask trials` reads them from the repository.
    files.retain(|file| !file.starts_with(lab.join("trials")));
    files.sort();
    let mut list = String::from("const EMBEDDED: &[(&str, &[u8])] = &[\n");
    for file in files {
        let name = file.strip_prefix(&lab).unwrap_or(&file);
        list += &format!("    ({name:?}, include_bytes!({file:?})),\n");
    }
    let out = env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    fs::write(out.join("embedded.rs"), list + "];\n")
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}
