//! The server, its clients, and those that mean it harm.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use mw_web::{MAX_CONNECTIONS, Request, Response, Server, Service, WebConfig};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[derive(Default)]
struct Page(Mutex<Vec<String>>);

impl Service for Page {
    fn answer(&self, request: &Request) -> Response {
        Response::plain(200, &format!("page {}\n", request.path))
    }

    fn tell(&self, line: &str) {
        self.0.lock().unwrap().push(line.to_owned());
    }
}

fn start(config: Option<WebConfig>) -> (Server, SocketAddr, Arc<Page>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let page = Arc::new(Page::default());
    let server = Server::start(listener, config, Arc::clone(&page) as Arc<dyn Service>).unwrap();
    (server, address, page)
}

fn ask(stream: &mut (impl Read + Write), headers: &str) -> io::Result<String> {
    write!(stream, "GET /x HTTP/1.1\r\nHost: a\r\n{headers}\r\n")?;
    stream.flush()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map(|_| answer)
}

fn get(address: SocketAddr, headers: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    ask(&mut stream, headers)
}

#[test]
fn a_request_is_answered_and_a_dropped_server_closes_its_port() {
    let (server, address, _) = start(None);
    let answer = get(address, "").unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\npage /x\n"), "{answer}");
    drop(server);
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn clients_that_send_nothing_keep_out_nobody() {
    let (_server, address, _) = start(None);
    let mut silent = Vec::new();
    for index in 0..10_000 {
        let mut stream = TcpStream::connect(address).unwrap();
        let _ = stream.write_all(b"GET / HT");
        silent.push(stream);
        if silent.len() > 4 * MAX_CONNECTIONS {
            silent.remove(0);
        }
        if index % 1000 == 0 {
            let answer = get(address, "").unwrap();
            assert!(answer.ends_with("page /x\n"), "{index}: {answer}");
        }
    }
    let threads = std::fs::read_dir("/proc/self/task").unwrap().count();
    assert!(threads < 4 * MAX_CONNECTIONS, "{threads}");
}

#[test]
fn a_slow_client_is_cut_off() {
    let (_server, address, _) = start(None);
    let begun = Instant::now();
    let mut stream = TcpStream::connect(address).unwrap();
    // A byte now and then extends no deadline.
    for byte in b"GET / HTTP/1.1\r\nHost: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".iter().cycle() {
        if stream.write_all(&[*byte]).is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(200));
        assert!(begun.elapsed() < 3 * mw_web::MAX_TIME);
    }
    assert!(begun.elapsed() >= mw_web::MAX_TIME / 2);
}

/// A directory with certificates of one authority.
struct Certificates {
    dir: tempfile::TempDir,
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl Certificates {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let authority = CertifiedIssuer::self_signed(params, key).unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("ca.pem"), authority.pem()).unwrap();
        Self { dir, authority }
    }

    fn issue(&self, name: &str) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.authority).unwrap();
        self.write(&format!("{name}.pem"), &certificate.pem());
        self.write(&format!("{name}.key"), &key.serialize_pem());
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn connect(&self, address: SocketAddr, client: Option<&str>) -> io::Result<String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.path("ca.pem")).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match client {
            None => builder.with_no_client_auth(),
            Some(name) => {
                let pem = |end: &str| self.path(&format!("{name}.{end}"));
                let certificate = CertificateDer::from_pem_file(pem("pem")).unwrap();
                let key = PrivateKeyDer::from_pem_file(pem("key")).unwrap();
                builder.with_client_auth_cert(vec![certificate], key).unwrap()
            }
        };
        let name = "localhost".try_into().unwrap();
        let connection = ClientConnection::new(Arc::new(config), name).unwrap();
        ask(&mut StreamOwned::new(connection, TcpStream::connect(address)?), "")
    }
}

#[test]
fn tls_asks_for_certificates_and_reads_its_files_again() {
    let files = Certificates::new();
    files.issue("server");
    files.issue("client");
    let tls = "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n";
    let path = files.write("web.yml", tls);
    let (_server, address, page) = start(Some(WebConfig::new(path)));
    assert!(files.connect(address, None).unwrap().ends_with("page /x\n"));
    assert!(!get(address, "").is_ok_and(|answer| answer.contains("page")), "no plain text");

    let mutual = "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n";
    files.write("web.yml", &format!("{tls}{mutual}"));
    assert!(files.connect(address, None).is_err());
    assert!(files.connect(address, Some("client")).unwrap().ends_with("page /x\n"));

    files.write("server.key", "no key");
    assert!(files.connect(address, Some("client")).is_err(), "what is wrong opens nothing");
    assert!(!get(address, "").is_ok_and(|answer| answer.contains("page")));
    let told = page.0.lock().unwrap().clone();
    assert_eq!(told.len(), 1, "once: {told:?}");
    assert!(told[0].contains("server.key: "), "{told:?}");
    files.issue("server");
    assert!(files.connect(address, Some("client")).unwrap().ends_with("page /x\n"));
}

#[test]
fn a_password_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("web.yml");
    let hash = bcrypt::hash("secret", 4).unwrap();
    std::fs::write(&path, format!("basic_auth_users:\n  prom: {hash}\n")).unwrap();
    let (_server, address, _) = start(Some(WebConfig::new(path)));
    let refused = get(address, "").unwrap();
    assert!(refused.starts_with("HTTP/1.1 401 ") && !refused.contains("page"), "{refused}");
    // prom:secret
    let answer = get(address, "Authorization: Basic cHJvbTpzZWNyZXQ=\r\n").unwrap();
    assert!(answer.ends_with("page /x\n"), "{answer}");
}

#[test]
fn what_is_wrong_in_the_file_is_said_with_its_name() {
    let files = Certificates::new();
    files.issue("server");
    files.issue("other");
    let wrong = |text: &str| {
        let path = files.write("web.yml", text);
        check(&path).unwrap_err()
    };
    let tls = "tls_server_config:\n  cert_file: server.pem\n  key_file: ";
    assert!(wrong("tls_server_config: 1").contains("web.yml: "));
    assert!(wrong("tls: 1").contains("unknown field"));
    assert!(wrong(&format!("{tls}absent.key")).contains("absent.key: No such file"));
    assert!(wrong(&format!("{tls}server.pem")).contains("server.pem: "));
    assert!(wrong(&format!("{tls}other.key")).contains("server.pem: "));
    assert!(wrong(&format!("{tls}server.key\n  client_ca_file: ca.pem")).contains("needs"));
    assert!(wrong("basic_auth_users:\n  a: plain").contains("not a bcrypt hash"));
    let path =
        files.write("web.yml", &format!("{tls}server.key\nhttp_server_config:\n  http2: true"));
    assert_eq!(check(&path), Ok(true));
    assert_eq!(check(&files.write("web.yml", "basic_auth_users: {}")), Ok(false));
}

fn check(path: &Path) -> Result<bool, String> {
    WebConfig::new(path.to_owned()).check()
}
