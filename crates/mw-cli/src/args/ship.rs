//! Arguments of `ship`.

use super::TimeArg;
use clap::Args as ClapArgs;
use std::path::PathBuf;

#[derive(Debug, Clone, ClapArgs)]
pub struct ShipArgs {
    /// The data set: a directory that exists, or s3://BUCKET[/PREFIX] with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY
    /// in the environment [default: that of the configuration]
    #[arg(long, value_name = "DIR|URL")]
    pub to: Option<String>,
    /// Name of this machine in the data set [default: that of the recording]
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// Begin with the day of this time [default: the first that is not complete in the data set]
    #[arg(long, value_name = "TIME")]
    pub since: Option<TimeArg>,
    /// S3 server, with https:// [default: $AWS_ENDPOINT_URL, or Amazon's]
    #[arg(long, value_name = "URL")]
    pub endpoint: Option<String>,
    /// Region of the bucket [default: $AWS_REGION, or us-east-1]
    #[arg(long, value_name = "REGION")]
    pub region: Option<String>,
    /// File with the certificates that may have signed the server's, in PEM [default: the system's]
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// The recording [default: /var/lib/memwright/recording.db]
    #[arg(long, value_name = "FILE")]
    pub recording: Option<PathBuf>,
    /// Directory of the record of complete days [default: /var/lib/memwright]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}
