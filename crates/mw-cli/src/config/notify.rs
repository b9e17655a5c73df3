//! The part of the configuration that says who is notified of incidents.

use crate::args::{duration, is_name};
use crate::{Exit, Failure};
use mw_model::Severity;
use mw_notify::{
    Filter, ReceiverConfig, ReceiverTarget, SecretFile, UNKNOWN, Webhook, WebhookFormat, WhileOpen,
};
use serde::{Deserialize, Deserializer};
use std::path::PathBuf;
use std::time::Duration;

/// Each receiver has a thread.
const MAX_TABLES: usize = 16;

const USUAL_OUTAGE: Duration = Duration::from_secs(5);
const USUAL_GROUP: Duration = Duration::from_secs(600);
const USUAL_MAX_PER_HOUR: usize = 20;
const USUAL_TIMEOUT: Duration = Duration::from_secs(10);

/// One `[[notify]]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct Notify {
    name: Option<String>,
    command: Option<Vec<String>>,
    webhook: Option<String>,
    url_file: Option<String>,
    format: Option<Shape>,
    token_file: Option<String>,
    ca_file: Option<PathBuf>,
    mail: Option<Vec<String>>,
    sendmail: Option<PathBuf>,
    journal: bool,
    cause: Vec<String>,
    severity: Option<Severity>,
    #[serde(deserialize_with = "time")]
    stall: Option<Duration>,
    open: Option<bool>,
    #[serde(deserialize_with = "time")]
    outage: Option<Duration>,
    #[serde(deserialize_with = "time")]
    group: Option<Duration>,
    max_per_hour: Option<usize>,
    #[serde(deserialize_with = "time")]
    timeout: Option<Duration>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Shape {
    Json,
    Slack,
    Pagerduty,
    Alertmanager,
}

/// Checks all tables.
pub(super) fn tables(all: &[Notify]) -> Result<Vec<ReceiverConfig>, Failure> {
    if all.len() > MAX_TABLES {
        let line = format!("too many [[notify]]: {} (at most {MAX_TABLES})", all.len());
        return Err(Failure::new(Exit::Usage, line));
    }
    let mut tables: Vec<ReceiverConfig> = Vec::new();
    for (place, notify) in all.iter().enumerate() {
        let wrong = |what: String| {
            let which = notify.name.clone().unwrap_or_else(|| format!("table {}", place + 1));
            Failure::new(Exit::Usage, format!("[[notify]] {which}: {what}"))
        };
        let table = notify.table().map_err(wrong)?;
        if tables.iter().any(|other| other.name == table.name) {
            return Err(wrong(format!("duplicate name '{}' (set another name)", table.name)));
        }
        tables.push(table);
    }
    Ok(tables)
}

impl Notify {
    fn table(&self) -> Result<ReceiverConfig, String> {
        let (kind, target) = self.target()?;
        let name = self.name.clone().unwrap_or_else(|| kind.to_owned());
        if !is_name(&name) {
            return Err("invalid name (at most 32 letters, digits, '-' and '_')".to_owned());
        }
        let is_known = |id: &str| id == UNKNOWN || mw_rules::find(id).is_some();
        if let Some(id) = self.cause.iter().find(|id| !is_known(id)) {
            return Err(format!("no cause '{id}'; 'memwright explain' lists them"));
        }
        Ok(ReceiverConfig {
            name,
            target,
            filter: Filter {
                causes: self.cause.clone(),
                min_severity: self.severity,
                min_stall: self.stall,
                open: match self.open {
                    None => WhileOpen::Long,
                    Some(true) => WhileOpen::AtOnce,
                    Some(false) => WhileOpen::Never,
                },
            },
            timeout: self.timeout.unwrap_or(USUAL_TIMEOUT),
            outage: self.outage.unwrap_or(USUAL_OUTAGE),
            group: self.group.unwrap_or(USUAL_GROUP),
            max_per_hour: self.max_per_hour.unwrap_or(USUAL_MAX_PER_HOUR),
        })
    }

    /// The receiver, and what it is called where it has no name.
    fn target(&self) -> Result<(&'static str, ReceiverTarget), String> {
        let is_webhook = self.webhook.is_some() || self.url_file.is_some() || self.format.is_some();
        if !is_webhook && (self.token_file.is_some() || self.ca_file.is_some()) {
            return Err("token-file and ca-file are entries of a webhook".to_owned());
        }
        if self.sendmail.is_some() && self.mail.is_none() {
            return Err("sendmail is an entry of mail; set mail = [ADDRESS]".to_owned());
        }
        match (&self.command, is_webhook, &self.mail, self.journal) {
            (Some(words), false, None, false) => {
                Ok(("command", ReceiverTarget::command(words.clone()).map_err(text)?))
            }
            (None, true, None, false) => self.webhook(),
            (None, false, Some(to), false) => {
                Ok(("mail", ReceiverTarget::mail(to.clone(), self.sendmail.clone()).map_err(text)?))
            }
            (None, false, None, true) => Ok(("journal", ReceiverTarget::journal())),
            _ => Err("set one of command, webhook (or url-file), mail and journal".to_owned()),
        }
    }

    fn webhook(&self) -> Result<(&'static str, ReceiverTarget), String> {
        let (kind, format) = match self.format.unwrap_or(Shape::Json) {
            Shape::Json => ("webhook", WebhookFormat::Json),
            Shape::Slack => ("slack", WebhookFormat::Slack),
            Shape::Pagerduty => ("pagerduty", WebhookFormat::PagerDuty),
            Shape::Alertmanager => ("alertmanager", WebhookFormat::Alertmanager),
        };
        let file = |name: &Option<String>| name.clone().map(SecretFile);
        let (url, token) = (file(&self.url_file), file(&self.token_file));
        let webhook =
            Webhook::new(format, self.webhook.as_deref(), url, token, self.ca_file.clone());
        Ok((kind, ReceiverTarget::Webhook(webhook.map_err(text)?)))
    }
}

fn text(error: mw_notify::ReceiverError) -> String {
    error.to_string()
}

fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    super::value::as_argument(from, duration)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[track_caller]
    fn check(entries: &str, said: Result<&str, &str>) {
        let table: Notify = toml::from_str(entries).unwrap();
        let result = tables(&[table]).map(|tables| tables[0].target.to_string());
        match said {
            Ok(target) => assert_eq!(result.unwrap(), target),
            Err(part) => {
                let line = result.unwrap_err().to_string();
                assert!(line.contains(part), "{line}");
                assert!(!line.contains("pa55"), "{line}");
            }
        }
    }

    #[test]
    fn receivers_are_read_and_mistakes_say_what_to_do() {
        check("journal = true", Ok("journal"));
        check("command = ['/bin/page', 'pa55']", Ok("command /bin/page"));
        check("webhook = 'https://hooks.example/pa55'", Ok("webhook at hooks.example"));
        check("mail = ['dba@example.com']", Ok("mail to dba@example.com"));
        let pagerduty = "format = 'pagerduty'\ntoken-file = 'key'";
        check(pagerduty, Ok("PagerDuty at events.pagerduty.com"));
        check("format = 'slack'\nurl-file = '/etc/url'", Ok("Slack by /etc/url"));
        check("", Err("set one of command, webhook (or url-file), mail and journal"));
        check("journal = true\ncommand = ['x']", Err("set one of"));
        check("webhook = 'https://me:pa55@hooks.example/'", Err("name that with token-file"));
        check("webhook = 'hooks.example'", Err("must begin with https://"));
        check("format = 'slack'\nwebhook = 'https://hooks.slack.com/pa55'", Err("url-file"));
        check("format = 'pagerduty'", Err("token-file"));
        check("journal = true\ntoken-file = 'x'", Err("entries of a webhook"));
        check("journal = true\ncause = ['no-such']", Err("memwright explain"));
        check("journal = true\nname = 'a b'", Err("invalid name"));
        let twice: Vec<Notify> = vec![toml::from_str("journal = true").unwrap(); 2];
        assert!(tables(&twice).unwrap_err().to_string().contains("duplicate name 'journal'"));
    }
}
