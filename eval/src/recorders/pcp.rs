//! The Performance Co-Pilot out of an unpacked tree: its collector, pmcd with the agents that Debian
//! has it start, and pmlogger with the configuration that pmlogconf makes of what there is to log.

use super::group::Group;
use super::programs::{Programs, Recorder};
use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Longest wait for pmcd's socket.
const START: Duration = Duration::from_secs(20);

/// Directories of its packages for what changes, and for what does not. The first that
/// fits counts.
const STATE: &[&str] = &["/var/lib/pcp/pmns", "/var/log", "/var/lib/pcp/tmp", "/run"];
const INSTALLED: &[(&str, &str)] = &[
    ("/var/lib/pcp/pmdas", "/usr/lib/pcp/pmdas"),
    ("/etc", "/etc"),
    ("/usr/lib", "/usr/lib"),
    ("/usr/share", "/usr/share"),
];

/// Starts it; `folder` is the recorder's.
pub(super) fn start(programs: &Programs, group: Group, folder: &Path) -> anyhow::Result<Recorder> {
    let pcp = Pcp::lay_out(programs, folder)?;
    let output = folder.join("out");
    let socket = folder.join("socket");
    let host = format!("unix:{}", socket.display());

    let mut pmcd = pcp.command(group.enter(&programs.path("usr/lib/pcp/bin/pmcd")));
    pmcd.args(["-f", "-U", "root", "-i", "127.0.0.1"]).env("PMCD_PORT", free_port()?.to_string());
    // Its agents write their logs where they are started.
    pmcd.current_dir(folder);
    pmcd.arg("-n").arg(&pcp.names).arg("-s").arg(&socket).arg("-l").arg(folder.join("pmcd.log"));
    let pmcd = programs.spawn(pmcd, folder)?;
    wait_for(&socket)?;

    let config = folder.join("config");
    let mut pmlogconf = pcp.command(Command::new(programs.path("usr/lib/pcp/bin/pmlogconf")));
    let groups = programs.path("etc/pcp/pmlogconf");
    pmlogconf.args(["-c", "-h", &host, "-d"]).arg(groups).arg(&config);
    programs.run(pmlogconf)?;

    let mut pmlogger = pcp.command(group.enter(&programs.path("usr/bin/pmlogger")));
    pmlogger.args(["-h", &host, "-t", "1", "-c"]).arg(&config);
    pmlogger.arg("-l").arg(folder.join("pmlogger.log")).arg(output.join("archive"));
    let pmlogger = programs.spawn(pmlogger, folder)?;
    Ok(Recorder { group, output, children: vec![pmcd, pmlogger] })
}

/// Its files, as laid out for one run.
struct Pcp {
    conf: PathBuf,
    names: PathBuf,
}

impl Pcp {
    fn lay_out(programs: &Programs, folder: &Path) -> anyhow::Result<Self> {
        let state = folder.join("state");
        for place in STATE {
            std::fs::create_dir_all(state.join(place.trim_start_matches('/')))?;
        }
        let conf = folder.join("pcp.conf");
        let text = crate::workspace::read(&programs.path("etc/pcp.conf"))?;
        let pmcd_conf = folder.join("pmcd.conf");
        let own = format!("PCP_PMCDCONF_PATH={}\n", pmcd_conf.display());
        // Of two lines the first counts.
        std::fs::write(&conf, own + &moved(&text, &programs.path(""), &state))?;
        let agents = crate::workspace::read(&programs.path("etc/pcp/pmcd/pmcd.conf"))?;
        let installed = programs.path("usr/lib/pcp/pmdas").display().to_string();
        std::fs::write(pmcd_conf, agents.replace("/var/lib/pcp/pmdas", &installed))?;
        let pcp = Self { conf, names: state.join("var/lib/pcp/pmns/root") };
        pcp.name_metrics(programs)?;
        Ok(pcp)
    }

    /// Merges the names of all agents' metrics.
    fn name_metrics(&self, programs: &Programs) -> anyhow::Result<()> {
        let parts = programs.path("usr/lib/pcp/pmns");
        let place = self.names.parent().context("no place for the names")?;
        let mut domains = String::new();
        let mut merge = self.command(Command::new(programs.path("usr/lib/pcp/bin/pmnsmerge")));
        merge.arg("-a").current_dir(place);
        for entry in parts.read_dir().with_context(|| parts.display().to_string())? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name.starts_with("stdpmid.") {
                domains += &defines(&crate::workspace::read(&parts.join(&name))?);
            } else if name.starts_with("root_") {
                std::fs::copy(parts.join(&name), place.join(&name))?;
                merge.arg(&name);
            }
        }
        std::fs::write(place.join("stdpmid"), domains)?;
        merge.arg(&self.names);
        programs.run(merge)
    }

    fn command(&self, mut command: Command) -> Command {
        command.env("PCP_CONF", &self.conf);
        command
    }
}

/// /etc/pcp.conf with the places of a tree and of a directory for what changes. Programs stay the
/// system's.
fn moved(conf: &str, tree: &Path, state: &Path) -> String {
    let mut text = String::new();
    for line in conf.lines().filter(|line| line.starts_with("PCP_")) {
        let Some((name, value)) = line.split_once('=') else { continue };
        let fits = |place: &str| value.strip_prefix(place);
        let installed = INSTALLED.iter().find_map(|(place, at)| Some((at, fits(place)?)));
        let value = match installed {
            _ if name.ends_with("_PROG") => value.to_owned(),
            Some((at, rest)) => format!("{}{at}{rest}", tree.display()),
            None if value == "/usr/bin" => format!("{}{value}", tree.display()),
            None if value.starts_with("/var/l") || value.starts_with("/run") => {
                format!("{}{value}", state.display())
            }
            None if ["PCP_USER", "PCP_GROUP"].contains(&name) => "root".to_owned(),
            None => value.to_owned(),
        };
        text += &format!("{name}={value}\n");
    }
    text
}

/// The agents' numbers, as its own preprocessor reads them.
fn defines(stdpmid: &str) -> String {
    let pairs = stdpmid.lines().filter(|line| !line.starts_with('#'));
    let pairs = pairs.filter_map(|line| line.trim().split_once(char::is_whitespace));
    pairs.map(|(name, number)| format!("#define {name} {}\n", number.trim())).collect()
}

/// A port that nobody listens at: pmcd listens at one whether it is needed or not.
fn free_port() -> anyhow::Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn wait_for(socket: &Path) -> anyhow::Result<()> {
    let until = Instant::now() + START;
    while std::os::unix::net::UnixStream::connect(socket).is_err() {
        anyhow::ensure!(Instant::now() < until, "{}: pmcd does not answer", socket.display());
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_moved_and_programs_are_not() {
        let conf = "# a comment\nPCP_ETC_DIR=/etc\nPCP_BIN_DIR=/usr/bin\nPCP_USER=pcp\n\
                    PCP_PMDAS_DIR=/var/lib/pcp/pmdas\nPCP_VAR_DIR=/var/lib/pcp\nPCP_RUN_DIR=/run/pcp\n\
                    PCP_SORT_PROG=/usr/bin/sort\nPCP_VERSION=6.0.3\n";
        let moved = moved(conf, Path::new("/t"), Path::new("/s"));
        assert_eq!(
            moved.lines().collect::<Vec<_>>(),
            [
                "PCP_ETC_DIR=/t/etc",
                "PCP_BIN_DIR=/t/usr/bin",
                "PCP_USER=root",
                "PCP_PMDAS_DIR=/t/usr/lib/pcp/pmdas",
                "PCP_VAR_DIR=/s/var/lib/pcp",
                "PCP_RUN_DIR=/s/run/pcp",
                "PCP_SORT_PROG=/usr/bin/sort",
                "PCP_VERSION=6.0.3"
            ]
        );
    }

    #[test]
    fn numbers_become_definitions() {
        assert_eq!(defines("# no\nROOT\t1\n\nLINUX 60\n"), "#define ROOT 1\n#define LINUX 60\n");
    }
}
