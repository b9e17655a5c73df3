//! What can go wrong before a machine gives its verdict, and what to do about it.

use std::path::{Path, PathBuf};

/// An error of the lab itself, as opposed to the outcome of a case.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A program of the host that the lab needs is not there.
    #[error("`{program}` is not installed: apt-get install {package}")]
    ProgramMissing {
        /// The program's name.
        program: String,
        /// The Debian package that has it.
        package: String,
    },
    /// A program of the host ended with an error.
    #[error("`{command}` failed: {detail}")]
    Command {
        /// The command line.
        command: String,
        /// What it said.
        detail: String,
    },
    /// No kernel of this name can be had.
    #[error("kernel {wanted:?} is not known: use one of {known}")]
    KernelUnknown {
        /// What was asked for.
        wanted: String,
        /// What there is.
        known: String,
    },
    /// A kernel that is not in the cache could not be downloaded.
    #[error(
        "kernel {wanted} is not in {cache} and cannot be downloaded ({detail}): put its unpacked \
         package there, or name a kernel's file with --kernel"
    )]
    KernelUnavailable {
        /// What was asked for.
        wanted: String,
        /// Where kernels are kept.
        cache: PathBuf,
        /// What stood in the way.
        detail: String,
    },
    /// The file that was named as a kernel is none.
    #[error("{path} is no x86 kernel image: name a file such as /boot/vmlinuz-6.1.0-18-amd64")]
    NoKernel {
        /// The file.
        path: PathBuf,
    },
    /// A kernel package was unpacked but holds no kernel.
    #[error("{path} has no boot/vmlinuz-*: remove it, so that it is downloaded again")]
    KernelBroken {
        /// The unpacked package.
        path: PathBuf,
    },
    /// A kernel module that a case names is not in the kernel's package.
    #[error("kernel {kernel} has no module {module} in {folder}, which the case needs")]
    ModuleMissing {
        /// The kernel's release.
        kernel: String,
        /// The module's name.
        module: String,
        /// Where it was looked for.
        folder: PathBuf,
    },
    /// No case is called so.
    #[error("no case or variant is called {wanted:?} in {folder}: see memwright lab --list")]
    CaseUnknown {
        /// What was asked for.
        wanted: String,
        /// The folder of cases.
        folder: PathBuf,
    },
    /// A case's description cannot be used.
    #[error("{path}: {detail}")]
    Case {
        /// The file.
        path: PathBuf,
        /// What is wrong in it.
        detail: String,
    },
    /// The guest sent something that is no frame.
    #[error("the guest's frames cannot be read: {0}")]
    Protocol(String),
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

impl LabError {
    /// For `map_err` on operations on `path`.
    pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> LabError + '_ {
        move |source| LabError::Io { path: path.to_path_buf(), source }
    }

    /// A mistake in the description of a case.
    pub(crate) fn case(path: &Path, detail: impl Into<String>) -> LabError {
        LabError::Case { path: path.to_path_buf(), detail: detail.into() }
    }
}
