//! One `[[notify]]`, checked.

use crate::filter::Filter;
use mw_http::{SecretFile, Uri, UrlError, checked};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq)]
pub struct ReceiverConfig {
    pub name: String,
    pub target: ReceiverTarget,
    pub filter: Filter,
    /// One try may take so long.
    pub timeout: Duration,
    /// Duration of an outage before it is reported.
    pub outage: Duration,
    pub group: Duration,
    /// Of each probe, and of each user, service or container for its cgroups.
    pub max_per_hour: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ReceiverTarget {
    /// A program and its arguments.
    Command(Vec<String>),
    Webhook(Webhook),
    Mail {
        to: Vec<String>,
        sendmail: PathBuf,
    },
    /// The socket of journald.
    Journal(PathBuf),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Webhook {
    pub format: WebhookFormat,
    pub address: WebhookUrl,
    pub token: Option<SecretFile>,
    pub ca_file: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum WebhookUrl {
    Url(Uri),
    /// The URL is a secret.
    File(SecretFile),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WebhookFormat {
    Json,
    Slack,
    PagerDuty,
    Alertmanager,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ReceiverError {
    #[error("url and url-file are both set; keep one")]
    TwoUrls,
    #[error("no url; set url, or url-file where it is a secret")]
    NoUrl,
    #[error("a Slack URL is a secret: write it to a file, and name that with url-file")]
    SlackUrl,
    #[error("pagerduty needs token-file, a file with the integration key")]
    NoKey,
    #[error("a URL {0}")]
    Url(UrlError),
    #[error("invalid address '{0}' (use for example dba@example.com)")]
    Mail(String),
    #[error("the command is empty (use for example [\"/usr/local/bin/page\"])")]
    NoCommand,
}

const PAGERDUTY: &str = "https://events.pagerduty.com/v2/enqueue";

impl Webhook {
    /// # Errors
    /// [`ReceiverError`]
    pub fn new(
        format: WebhookFormat,
        url: Option<&str>,
        url_file: Option<SecretFile>,
        token: Option<SecretFile>,
        ca_file: Option<PathBuf>,
    ) -> Result<Self, ReceiverError> {
        if format == WebhookFormat::PagerDuty && token.is_none() {
            return Err(ReceiverError::NoKey);
        }
        let usual = (format == WebhookFormat::PagerDuty && url_file.is_none()).then_some(PAGERDUTY);
        let address = match (url, url_file) {
            (Some(_), Some(_)) => return Err(ReceiverError::TwoUrls),
            (Some(_), None) if format == WebhookFormat::Slack => {
                return Err(ReceiverError::SlackUrl);
            }
            (None, Some(file)) => WebhookUrl::File(file),
            (url, None) => {
                let url = url.or(usual).ok_or(ReceiverError::NoUrl)?;
                WebhookUrl::Url(checked(url, token.is_some()).map_err(ReceiverError::Url)?)
            }
        };
        Ok(Self { format, address, token, ca_file })
    }
}

impl ReceiverTarget {
    /// # Errors
    /// [`ReceiverError`]
    pub fn mail(to: Vec<String>, sendmail: Option<PathBuf>) -> Result<Self, ReceiverError> {
        let is_wrong = |address: &&String| {
            let odd = |c: char| c.is_control() || c.is_whitespace() || ",<>\"".contains(c);
            address.is_empty() || address.starts_with('-') || address.chars().any(odd)
        };
        if let Some(wrong) = to.iter().find(is_wrong) {
            return Err(ReceiverError::Mail(wrong.clone()));
        }
        if to.is_empty() {
            return Err(ReceiverError::Mail(String::new()));
        }
        Ok(Self::Mail { to, sendmail: sendmail.unwrap_or_else(|| "/usr/sbin/sendmail".into()) })
    }

    /// # Errors
    /// [`ReceiverError`]
    pub fn command(words: Vec<String>) -> Result<Self, ReceiverError> {
        if words.first().is_none_or(String::is_empty) {
            return Err(ReceiverError::NoCommand);
        }
        Ok(Self::Command(words))
    }

    /// The journal of this machine.
    pub fn journal() -> Self {
        Self::Journal("/run/systemd/journal/socket".into())
    }
}

/// Description of it, without a secret: no path of a URL, no argument of a command.
impl fmt::Display for ReceiverTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(words) => {
                write!(f, "command {}", words.first().map_or("", String::as_str))
            }
            Self::Webhook(Webhook { format, address, .. }) => {
                let format = match format {
                    WebhookFormat::Json => "webhook",
                    WebhookFormat::Slack => "Slack",
                    WebhookFormat::PagerDuty => "PagerDuty",
                    WebhookFormat::Alertmanager => "Alertmanager",
                };
                match address {
                    WebhookUrl::Url(uri) => {
                        let authority = uri.authority().map_or("", |authority| authority.as_str());
                        write!(f, "{format} at {authority}")
                    }
                    WebhookUrl::File(file) => write!(f, "{format} by {}", file.0),
                }
            }
            Self::Mail { to, .. } => write!(f, "mail to {}", to.join(", ")),
            Self::Journal(_) => f.write_str("journal"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_of_slack_is_a_secret() {
        let slack =
            Webhook::new(WebhookFormat::Slack, Some("https://hooks.slack.com/x"), None, None, None);
        assert_eq!(slack, Err(ReceiverError::SlackUrl));
    }

    #[test]
    fn an_address_is_no_option_and_adds_no_header() {
        for wrong in ["-oX/etc/passwd", "a@b\nBcc: c@d", "a@b, c@d", ""] {
            assert!(ReceiverTarget::mail(vec![wrong.to_owned()], None).is_err(), "{wrong}");
        }
        assert!(ReceiverTarget::mail(vec!["dba@example.com".to_owned()], None).is_ok());
    }
}
