//! Webhooks over TLS: certificates that are trusted, and those that are not.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use mw_model::Incident;
use mw_notify::{Filter, Notice, ReceiverConfig, ReceiverTarget, Webhook, WebhookFormat, deliver};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(3);

/// An authority, whose certificate is in a file.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    dir: tempfile::TempDir,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { issuer, dir }
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    /// A server with a certificate for `name`, valid until a year: its port, and the requests that it read.
    fn server(&self, name: &str, until: i32) -> (u16, Receiver<String>) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_after = date_time_ymd(until, 1, 1);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        serve(Arc::new(config))
    }
}

fn serve(config: Arc<ServerConfig>) -> (u16, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(connection, client);
            let (mut read, mut piece) = (Vec::new(), [0; 4096]);
            while !read.ends_with(b"}") {
                match stream.read(&mut piece) {
                    Ok(count) if count > 0 => read.extend_from_slice(&piece[..count]),
                    _ => break,
                }
            }
            if !read.is_empty() {
                let _ = sender.send(String::from_utf8_lossy(&read).into_owned());
                let answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                let _ = stream.write_all(answer.as_bytes());
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        }
    });
    (port, requests)
}

fn send(url: &str, ca_file: Option<PathBuf>) -> Result<(), String> {
    let webhook = Webhook::new(WebhookFormat::Json, Some(url), None, None, ca_file).unwrap();
    let table = ReceiverConfig {
        name: "test".to_owned(),
        target: ReceiverTarget::Webhook(webhook),
        filter: Filter::default(),
        timeout: TIMEOUT,
        group: Duration::ZERO,
        outage: Duration::from_secs(5),
        max_per_hour: 1000,
    };
    let notice = Notice::new(&Incident { id: 7, ..Incident::default() });
    deliver(&table, &notice).map_err(|failed| failed.text)
}

#[test]
fn a_message_arrives_where_the_certificate_is_trusted() {
    let authority = Authority::new("ours");
    let (port, requests) = authority.server("localhost", 2040);
    send(&format!("https://localhost:{port}/hook"), Some(authority.file())).unwrap();
    let request = requests.recv_timeout(TIMEOUT).unwrap();
    assert!(request.starts_with("POST /hook HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("\"incident\":7"), "{request}");
}

/// Nothing is sent to a server that does not prove its name, and the error says what is wrong with its certificate.
#[test]
fn nothing_is_sent_where_the_certificate_is_not_trusted() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    for (authority, host, until, expected) in [
        (&theirs, "localhost", 2040, "set ca-file"),
        (&ours, "elsewhere.example", 2040, "elsewhere.example"),
        (&ours, "localhost", 2001, "expired"),
    ] {
        let (port, requests) = authority.server(host, until);
        let text = send(&format!("https://localhost:{port}/hook"), Some(ours.file())).unwrap_err();
        assert!(text.contains(expected), "{text}");
        assert!(text.lines().count() == 1 && text.len() < 200, "{text}");
        assert!(requests.recv_timeout(Duration::from_millis(200)).is_err(), "sent to {host}");
    }
}

#[test]
fn a_server_without_tls_or_that_never_answers_is_given_up_in_time() {
    let authority = Authority::new("ours");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut held: Vec<TcpStream> = Vec::new();
        for (place, mut client) in listener.incoming().map_while(Result::ok).enumerate() {
            if place == 0 {
                let _ = client.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            }
            held.push(client);
        }
    });
    let url = format!("https://localhost:{port}/hook");
    let text = send(&url, Some(authority.file())).unwrap_err();
    assert!(text.contains("TLS"), "{text}");
    let begun = Instant::now();
    let text = send(&url, Some(authority.file())).unwrap_err();
    assert_eq!(text, "no answer within 3s");
    assert!(begun.elapsed() < 3 * TIMEOUT);
}
