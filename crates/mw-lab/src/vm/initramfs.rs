//! The guest's initial file system: a cpio archive (`newc`), uncompressed, made in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::process::Command;

use cpio::newc::{Builder, ModeFileType, trailer};

use crate::command::output_of;
use crate::error::LabError;

/// Files by their path in the guest, without the leading slash.
#[derive(Debug, Clone, Default)]
pub(crate) struct Initramfs {
    files: BTreeMap<String, (u32, Vec<u8>)>,
}

impl Initramfs {
    pub(crate) fn new() -> Initramfs {
        Initramfs::default()
    }

    /// Puts `contents` at `path` with the permission bits `mode`.
    pub(crate) fn add(&mut self, path: &str, mode: u32, contents: impl Into<Vec<u8>>) {
        self.files.insert(path.trim_start_matches('/').to_owned(), (mode, contents.into()));
    }

    /// Puts a copy of the host's file at `path`.
    pub(crate) fn add_file(&mut self, path: &str, mode: u32, host: &Path) -> Result<(), LabError> {
        let contents = std::fs::read(host).map_err(LabError::io(host))?;
        self.add(path, mode, contents);
        Ok(())
    }

    /// Puts a program of the host into `/bin`, and its shared libraries where they are on the host.
    pub(crate) fn add_program(&mut self, name: &str, host: &Path) -> Result<(), LabError> {
        self.add_file(&format!("bin/{name}"), 0o755, host)?;
        for library in libraries(host)? {
            self.add_file(&library, 0o755, Path::new(&library))?;
        }
        Ok(())
    }

    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, LabError> {
        let mut out = Vec::new();
        let failed = |source| LabError::io(Path::new("initramfs"))(source);
        let mut inode = 0;
        let mut next = |path: &str, mode: u32| {
            inode += 1;
            Builder::new(path).ino(inode).nlink(1).mode(mode)
        };
        for dir in self.directories() {
            let entry = next(&dir, 0o755).set_mode_file_type(ModeFileType::Directory);
            entry.write(&mut out, 0).finish().map_err(failed)?;
        }
        for (path, (mode, contents)) in &self.files {
            let size = u32::try_from(contents.len()).map_err(|_| {
                failed(std::io::Error::other(format!("{path} is larger than 4 GiB")))
            })?;
            let entry = next(path, *mode).set_mode_file_type(ModeFileType::Regular);
            let mut writer = entry.write(&mut out, size);
            writer.write_all(contents).map_err(failed)?;
            writer.finish().map_err(failed)?;
        }
        trailer(&mut out).map_err(failed)?;
        Ok(out)
    }

    /// Every directory that a file is in, parents first.
    fn directories(&self) -> BTreeSet<String> {
        let mut dirs = BTreeSet::new();
        for path in self.files.keys() {
            for (at, _) in path.match_indices('/') {
                dirs.insert(path[..at].to_owned());
            }
        }
        dirs
    }
}

/// The shared libraries of a program, as `ldd` finds them; none for a static one.
fn libraries(program: &Path) -> Result<Vec<String>, LabError> {
    match output_of(Command::new("ldd").arg(program), "libc-bin") {
        Ok(text) => Ok(library_paths(&text)),
        // `ldd` ends with an error for a static program.
        Err(LabError::Command { detail, .. }) if detail.contains("not a dynamic executable") => {
            Ok(Vec::new())
        }
        Err(other) => Err(other),
    }
}

/// The absolute paths in the output of `ldd`.
fn library_paths(text: &str) -> Vec<String> {
    let words = text.lines().filter_map(|line| {
        line.split_whitespace().find(|word| word.starts_with('/')).map(str::to_owned)
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_the_folders_and_the_files() {
        let mut image = Initramfs::new();
        image.add("/init", 0o755, *b"#!/bin/sh\n");
        image.add("lab/modules/a.ko", 0o644, *b"abc");
        let bytes = image.to_bytes().unwrap();

        let mut rest = bytes.as_slice();
        let mut got = Vec::new();
        loop {
            let mut reader = cpio::newc::Reader::new(rest).unwrap();
            if reader.entry().is_trailer() {
                break;
            }
            let (name, mode) = (reader.entry().name().to_owned(), reader.entry().mode());
            let mut contents = Vec::new();
            std::io::Read::read_to_end(&mut reader, &mut contents).unwrap();
            got.push((name, mode, contents));
            rest = reader.finish().unwrap();
        }
        let want: Vec<(String, u32, Vec<u8>)> = vec![
            ("lab".into(), 0o040755, vec![]),
            ("lab/modules".into(), 0o040755, vec![]),
            ("init".into(), 0o100755, b"#!/bin/sh\n".to_vec()),
            ("lab/modules/a.ko".into(), 0o100644, b"abc".to_vec()),
        ];
        assert_eq!(got, want);
    }

    #[test]
    fn libraries_are_read_from_ldd() {
        let text = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        assert_eq!(
            library_paths(text),
            ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"]
        );
    }
}
