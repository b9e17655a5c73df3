//! Errors of the lab, as opposed to outcomes of cases.

use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum LabError {
    #[error("`{program}` is not installed: apt-get install {package}")]
    ProgramMissing {
        program: String,
        /// The Debian package.
        package: String,
    },
    #[error("`{command}` failed: {detail}")]
    Command { command: String, detail: String },
    #[error("unknown kernel {wanted:?} (use one of {known})")]
    KernelUnknown { wanted: String, known: String },
    #[error(
        "kernel {wanted} is not in {cache} and could not be downloaded ({detail}); unpack its package \
         there, or name a kernel image with --kernel"
    )]
    KernelUnavailable {
        wanted: String,
        cache: PathBuf,
        /// The reason.
        detail: String,
    },
    #[error("{path} is not an x86 kernel image (use for example /boot/vmlinuz-6.1.0-18-amd64)")]
    NoKernel { path: PathBuf },
    #[error("{path} has no boot/vmlinuz-*; remove it to download it again")]
    KernelBroken { path: PathBuf },
    #[error("kernel {kernel} has no module {module} in {folder}, which the case needs")]
    ModuleMissing { kernel: String, module: String, folder: PathBuf },
    #[error("unknown case or variant {wanted:?} in {folder}; memwright lab --list lists them")]
    CaseUnknown { wanted: String, folder: PathBuf },
    #[error("{path}: {detail}")]
    Case { path: PathBuf, detail: String },
    #[error("malformed frames from the guest: {0}")]
    Protocol(String),
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
}

impl LabError {
    /// For `map_err` on operations on `path`.
    pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> LabError + '_ {
        move |source| LabError::Io { path: path.to_path_buf(), source }
    }

    pub(crate) fn case(path: &Path, detail: impl Into<String>) -> LabError {
        LabError::Case { path: path.to_path_buf(), detail: detail.into() }
    }
}
