//! Arguments of `k8s`.

use super::duration::{delay, duration};
use clap::{Args as ClapArgs, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

/// Files of a pod's service account: its token, and the certificate of the API server.
const TOKEN_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";
const CA_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";

const MIN_INTERVAL: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, ClapArgs)]
pub struct K8sArgs {
    #[command(subcommand)]
    pub command: K8sCommand,
}

#[derive(Debug, Clone, Subcommand)]
pub enum K8sCommand {
    /// Report the hazards of this node as conditions of the Node object: MemoryFragmented, HugePagesUnavailable,
    /// MemoryStalling
    Condition(K8sConditionArgs),
}

#[derive(Debug, Clone, ClapArgs)]
pub struct K8sConditionArgs {
    /// Name of the Node object [default: $NODE_NAME, or the host name]
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// Check at this interval until SIGTERM, at least 5s; an unchanged result is reported every five minutes
    #[arg(long, value_name = "TIME", value_parser = interval)]
    pub every: Option<Duration>,
    /// Set a condition to True only once the finding has been there for this long, in at least three checks
    #[arg(long, value_name = "TIME", default_value = "3m", value_parser = delay, requires = "every")]
    pub after: Duration,
    /// Root of the host's file system in a container; as for check
    #[arg(long, value_name = "DIR|FILE")]
    pub root: Option<PathBuf>,
    /// API server [default: that of the cluster, by $KUBERNETES_SERVICE_HOST and $KUBERNETES_SERVICE_PORT]
    #[arg(long, value_name = "URL")]
    pub api_server: Option<String>,
    /// File with the token, read for every request
    #[arg(long, value_name = "FILE", default_value = TOKEN_FILE)]
    pub token_file: String,
    /// File with the certificates that may have signed the API server's, in PEM
    #[arg(long, value_name = "FILE", default_value = CA_FILE)]
    pub ca_file: PathBuf,
    /// Remove the conditions from the Node object
    #[arg(long, conflicts_with_all = ["every", "root"])]
    pub remove: bool,
    /// Print the patch, and send nothing
    #[arg(long, conflicts_with = "every")]
    pub dry_run: bool,
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = duration(text)?;
    if interval < MIN_INTERVAL {
        return Err(format!("at least {MIN_INTERVAL:?}"));
    }
    Ok(interval)
}
