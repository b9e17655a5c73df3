//! `web.config.file`: the options of Prometheus' exporter-toolkit that this server has.

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, SupportedProtocolVersion, version};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The place of the key among the files of a configuration.
const KEY_FILE: usize = 2;

const MAX_FILE_BYTES: u64 = 1 << 20;

/// One of 16 takes some 4 s of a CPU, one of 20 a minute: more than a connection lasts.
const COSTS: RangeInclusive<u32> = 4..=16;

/// A configuration file, which is read again whenever it or a file that it names has changed.
#[derive(Debug)]
pub struct WebConfig {
    path: PathBuf,
    last: Mutex<Option<LoadedConfig>>,
}

#[derive(Debug)]
struct LoadedConfig {
    /// The configuration and the files that it names, with their contents.
    files: Vec<(PathBuf, Vec<u8>)>,
    policy: Arc<ConnectionPolicy>,
}

/// Requirements of a connection.
#[derive(Debug, Default)]
pub(crate) struct ConnectionPolicy {
    pub(crate) tls: Option<Arc<ServerConfig>>,
    /// By user; everybody may read if there are none.
    pub(crate) users: BTreeMap<String, PasswordHash>,
    /// The largest cost of a user's hash.
    pub(crate) max_cost: u32,
}

/// A bcrypt hash.
#[derive(Debug, Clone, Default)]
pub(crate) struct PasswordHash {
    pub(crate) text: String,
    /// The logarithm of its rounds, to the base 2.
    pub(crate) cost: u32,
}

/// Requirements of a configuration for clients, and dangers for its secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Protection {
    pub has_tls: bool,
    pub has_passwords: bool,
    /// Files with a key or with hashes of passwords.
    pub secret_files: Vec<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    tls_server_config: Option<Tls>,
    #[serde(default)]
    basic_auth_users: BTreeMap<String, String>,
    #[serde(rename = "http_server_config")]
    _http: Option<HttpConfig>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tls {
    cert_file: PathBuf,
    key_file: PathBuf,
    #[serde(default)]
    client_auth_type: ClientAuth,
    client_ca_file: Option<PathBuf>,
    #[serde(default)]
    min_version: Version,
    max_version: Option<Version>,
}

/// Certificates that nobody verifies prove nothing, so that `RequestClientCert` and `RequireAnyClientCert` are
/// refused.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
enum ClientAuth {
    #[default]
    #[serde(rename = "NoClientCert", alias = "")]
    None,
    VerifyClientCertIfGiven,
    RequireAndVerifyClientCert,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
enum Version {
    #[default]
    #[serde(rename = "TLS12")]
    Tls12,
    #[serde(rename = "TLS13")]
    Tls13,
}

/// Read so that files of other exporters are accepted; this server speaks HTTP/1.1 alone.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HttpConfig {
    #[serde(rename = "http2")]
    _http2: Option<bool>,
}

impl WebConfig {
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path, last: Mutex::default() }
    }

    /// Its requirements.
    ///
    /// # Errors
    /// What is wrong in one line.
    pub fn check(&self) -> Result<Protection, String> {
        let policy = self.policy()?;
        let (has_tls, has_passwords) = (policy.tls.is_some(), !policy.users.is_empty());
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let files = last.as_ref().map_or(&[][..], |loaded| &loaded.files);
        // Of the files with certificates, only the one with the key is a secret.
        let secret = [has_passwords.then_some(0), has_tls.then_some(KEY_FILE)];
        let secret = secret.into_iter().flatten().filter_map(|at| files.get(at));
        let secret_files = secret.map(|(path, _)| path.clone()).collect();
        Ok(Protection { has_tls, has_passwords, secret_files })
    }

    pub(crate) fn policy(&self) -> Result<Arc<ConnectionPolicy>, String> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded) = last.as_ref().filter(|loaded| loaded.is_current()) {
            return Ok(Arc::clone(&loaded.policy));
        }
        let text = read(&self.path)?;
        let document: Document = serde_yaml_ng::from_slice(&text)
            .map_err(|error| wrong(&self.path, &error.to_string().replace('\n', " ")))?;
        let mut files = vec![(self.path.clone(), text)];
        if let Some(tls) = &document.tls_server_config {
            let named = [Some(&tls.cert_file), Some(&tls.key_file), tls.client_ca_file.as_ref()];
            for path in named.into_iter().flatten() {
                let path = self.beside(path);
                let bytes = read(&path)?;
                files.push((path, bytes));
            }
        }
        let policy = Arc::new(self.build(document, &files)?);
        *last = Some(LoadedConfig { files, policy: Arc::clone(&policy) });
        Ok(policy)
    }

    fn build(
        &self,
        document: Document,
        files: &[(PathBuf, Vec<u8>)],
    ) -> Result<ConnectionPolicy, String> {
        let users = document.basic_auth_users.into_iter().map(|(user, text)| {
            let hash = password_hash(&user, text).map_err(|why| wrong(&self.path, &why))?;
            Ok((user, hash))
        });
        let users = users.collect::<Result<BTreeMap<_, _>, String>>()?;
        let max_cost = users.values().map(|hash| hash.cost).max().unwrap_or_default();
        let tls = document.tls_server_config.map(|tls| self.tls(&tls, files)).transpose()?;
        Ok(ConnectionPolicy { tls, users, max_cost })
    }

    fn tls(&self, tls: &Tls, files: &[(PathBuf, Vec<u8>)]) -> Result<Arc<ServerConfig>, String> {
        let file = |index: usize| files.get(index).map_or(&[][..], |(_, bytes)| bytes);
        let (cert_file, key_file) = (self.beside(&tls.cert_file), self.beside(&tls.key_file));
        let certificates = certificates(&cert_file, file(1))?;
        let key = PrivateKeyDer::from_pem_slice(file(KEY_FILE))
            .map_err(|error| wrong(&key_file, &error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&versions(tls))
            .map_err(|error| wrong(&self.path, &error))?;
        let builder = match (tls.client_auth_type, &tls.client_ca_file) {
            (ClientAuth::None, None) => builder.with_no_client_auth(),
            (ClientAuth::None, Some(_)) => {
                let why = "client_ca_file needs client_auth_type: RequireAndVerifyClientCert";
                return Err(wrong(&self.path, &why));
            }
            (_, None) => return Err(wrong(&self.path, &"client_auth_type needs client_ca_file")),
            (kind, Some(path)) => {
                let path = self.beside(path);
                let mut roots = RootCertStore::empty();
                for certificate in self::certificates(&path, file(3))? {
                    roots.add(certificate).map_err(|error| wrong(&path, &error))?;
                }
                let mut verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                if kind == ClientAuth::VerifyClientCertIfGiven {
                    verifier = verifier.allow_unauthenticated();
                }
                let verifier = verifier.build().map_err(|error| wrong(&path, &error))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let config = builder.with_single_cert(certificates, key);
        config.map(Arc::new).map_err(|error| {
            let why = format!("{error} (certificate and key_file {})", key_file.display());
            wrong(&cert_file, &why)
        })
    }

    /// Paths are relative to the file's own directory.
    fn beside(&self, path: &Path) -> PathBuf {
        self.path.parent().map_or_else(|| path.to_owned(), |dir| dir.join(path))
    }
}

impl LoadedConfig {
    /// True if no file has changed.
    fn is_current(&self) -> bool {
        self.files.iter().all(|(path, bytes)| read(path).is_ok_and(|now| now == *bytes))
    }
}

fn password_hash(user: &str, text: String) -> Result<PasswordHash, String> {
    let Ok(parts) = text.parse::<bcrypt::HashParts>() else {
        return Err(format!(
            "the password of '{user}' is not a bcrypt hash (use htpasswd -nBC 10)"
        ));
    };
    let cost = parts.get_cost();
    if !COSTS.contains(&cost) {
        let (min, max) = (COSTS.start(), COSTS.end());
        return Err(format!(
            "the bcrypt hash of '{user}' has the cost {cost}, not one of {min} to {max} (use htpasswd -nBC 10)"
        ));
    }
    Ok(PasswordHash { text, cost })
}

fn versions(tls: &Tls) -> Vec<&'static SupportedProtocolVersion> {
    let max = tls.max_version.unwrap_or(Version::Tls13);
    [(Version::Tls12, &version::TLS12), (Version::Tls13, &version::TLS13)]
        .into_iter()
        .filter(|(version, _)| (tls.min_version..=max).contains(version))
        .map(|(_, version)| version)
        .collect()
}

fn certificates(path: &Path, bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
    match certificates {
        Ok(list) if list.is_empty() => Err(wrong(path, &"no certificate in PEM format")),
        Ok(list) => Ok(list),
        Err(error) => Err(wrong(path, &error)),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    mw_sys::guarded::read(path, MAX_FILE_BYTES).map_err(|error| wrong(path, &error))
}

fn wrong(path: &Path, why: &dyn Display) -> String {
    format!("{}: {why}", path.display())
}
