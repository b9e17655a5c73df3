//! What goes into a guest: the shell, the case, the tools of `lab/guest`, and the programs the case
//! names.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::case::Variant;
use crate::error::LabError;
use crate::initramfs::Initramfs;
use crate::kernel::Kernel;
use crate::workdir;

const BUSYBOX: &str = "/bin/busybox";
/// Where programs that cases name are looked for.
const PROGRAM_DIRS: &[&str] = &["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"];

/// Builds the initial file system of a variant. `binary` is the `memwright` that captures.
pub fn image(
    lab: &Path,
    variant: &Variant,
    kernel: &Kernel,
    binary: &Path,
) -> Result<Vec<u8>, LabError> {
    let mut image = Initramfs::new();
    let guest = lab.join("guest");
    if !Path::new(BUSYBOX).exists() {
        return Err(missing("busybox", "busybox-static"));
    }
    image.add_program("busybox", Path::new(BUSYBOX))?;
    image.add_file("init", 0o755, &guest.join("init"))?;
    image.add("bin/hold", 0o755, compile(&guest.join("hold.c"))?);
    for name in &variant.programs {
        image.add_program(name, &find_program(name)?)?;
    }
    add_stripped(&mut image, binary)?;
    let modules = add_modules(&mut image, kernel, &variant.modules)?;
    add_case_files(&mut image, &variant.dir)?;
    image.add("lab/env", 0o644, environment(variant, &modules));
    image.to_bytes()
}

/// The variables that `init` and `make.sh` see.
fn environment(variant: &Variant, modules: &[String]) -> String {
    let disks = variant.machine.disks.len();
    format!(
        "export CASE={} VARIANT={} CGROUP={} DISKS={disks}\nSWAPS='{}'\nMODULES='{}'\n",
        variant.case,
        variant.name,
        variant.cgroup.name(),
        variant.machine.swap_disks().join(" "),
        modules.join(" "),
    )
}

fn add_modules(
    image: &mut Initramfs,
    kernel: &Kernel,
    names: &[String],
) -> Result<Vec<String>, LabError> {
    let mut files = Vec::new();
    for name in names {
        let path = kernel.module(name)?;
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        image.add_file(&format!("lab/modules/{file}"), 0o644, &path)?;
        files.push(file);
    }
    Ok(files)
}

/// Everything in the case's folder but its description.
fn add_case_files(image: &mut Initramfs, dir: &Path) -> Result<(), LabError> {
    for entry in dir.read_dir().map_err(LabError::io(dir))? {
        let entry = entry.map_err(LabError::io(dir))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != "case.toml" && entry.path().is_file() {
            image.add_file(&format!("lab/{name}"), 0o755, &entry.path())?;
        }
    }
    Ok(())
}

/// Debugging information would take a good part of a small guest's memory.
fn add_stripped(image: &mut Initramfs, binary: &Path) -> Result<(), LabError> {
    let dir = workdir::new()?;
    let stripped = dir.path().join("memwright");
    output_of(Command::new("strip").arg("-o").arg(&stripped).arg(binary), "binutils")?;
    image.add_program("memwright", &stripped)
}

fn compile(source: &Path) -> Result<Vec<u8>, LabError> {
    let dir = workdir::new()?;
    let program = dir.path().join("program");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-Wall", "-Wextra", "-static", "-o"]).arg(&program).arg(source);
    output_of(&mut gcc, "gcc libc6-dev")?;
    std::fs::read(&program).map_err(LabError::io(&program))
}

fn find_program(name: &str) -> Result<PathBuf, LabError> {
    let mut paths = PROGRAM_DIRS.iter().map(|dir| Path::new(dir).join(name));
    paths.find(|path| path.is_file()).ok_or_else(|| missing(name, "the package that has it"))
}

fn missing(program: &str, package: &str) -> LabError {
    LabError::ProgramMissing { program: program.to_owned(), package: package.to_owned() }
}

/// Runs a program of the host and returns what it printed. `package` is what to install when it is
/// not there.
pub(crate) fn output_of(command: &mut Command, package: &str) -> Result<String, LabError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = match command.output() {
        Ok(output) => output,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Err(missing(&program, package));
        }
        Err(e) => return Err(LabError::io(Path::new(&program))(e)),
    };
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = [output.stderr, output.stdout].concat();
    let args: Vec<_> = command.get_args().map(|a| a.to_string_lossy().into_owned()).collect();
    Err(LabError::Command {
        command: format!("{program} {}", args.join(" ")),
        detail: String::from_utf8_lossy(&said).trim().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_says_what_to_install() {
        let error = output_of(&mut Command::new("no-such-program"), "some-package").unwrap_err();
        assert_eq!(
            error.to_string(),
            "`no-such-program` is not installed: apt-get install some-package"
        );
    }

    #[test]
    fn a_failing_program_says_why() {
        let mut sh = Command::new("sh");
        let error = output_of(sh.args(["-c", "echo why >&2; exit 3"]), "dash").unwrap_err();
        assert_eq!(error.to_string(), "`sh -c echo why >&2; exit 3` failed: why");
    }
}
