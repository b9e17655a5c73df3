//! A server with a page, its clients, and certificates.

#![allow(dead_code, reason = "each test program uses a part")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use mw_web::{HttpRequest, HttpService, Response, WebConfig, WebServer};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// More than the kernel takes for a client that does not read.
pub(crate) const LARGE_BYTES: usize = 4 << 20;

/// The receive buffer of a client, so that the kernel takes little for one that does not read.
const RECEIVE_BYTES: usize = 4096;

/// A page with the path; `/large` is a large one, `/never` has no answer.
pub(crate) struct Page {
    pub(crate) told: Mutex<Vec<String>>,
    large: Arc<str>,
}

impl HttpService for Page {
    fn answer(&self, request: &HttpRequest) -> Option<Response> {
        let text = format!("page {}\n", request.path);
        match &*request.path {
            "/never" => None,
            "/large" => {
                Some(Response { body: Arc::clone(&self.large), ..Response::plain(200, "") })
            }
            _ => Some(Response::plain(200, &text)),
        }
    }

    fn tell(&self, line: &str) {
        self.told.lock().unwrap().push(line.to_owned());
    }
}

pub(crate) fn start(config: Option<WebConfig>) -> (WebServer, SocketAddr, Arc<Page>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let page = Arc::new(Page { told: Mutex::default(), large: "x".repeat(LARGE_BYTES).into() });
    let server =
        WebServer::start(listener, config, Arc::clone(&page) as Arc<dyn HttpService>).unwrap();
    (server, address, page)
}

/// A server that asks for the password `secret` of the user `prom`, and its directory.
pub(crate) fn start_with_password(cost: u32) -> (WebServer, SocketAddr, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("web.yml");
    let hash = bcrypt::hash("secret", cost).unwrap();
    std::fs::write(&path, format!("basic_auth_users:\n  prom: {hash}\n")).unwrap();
    let (server, address, _) = start(Some(WebConfig::new(path)));
    (server, address, dir)
}

/// prom:secret
pub(crate) const RIGHT: &str = "Authorization: Basic cHJvbTpzZWNyZXQ=\r\n";

pub(crate) fn ask(stream: &mut (impl Read + Write), headers: &str) -> io::Result<String> {
    write!(stream, "GET /x HTTP/1.1\r\nHost: a\r\n{headers}\r\n")?;
    stream.flush()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map(|_| answer)
}

pub(crate) fn get(address: SocketAddr, headers: &str) -> io::Result<String> {
    get_from([127, 0, 0, 1], address, headers)
}

pub(crate) fn get_from(own: [u8; 4], address: SocketAddr, headers: &str) -> io::Result<String> {
    ask(&mut connect_from(own, address)?, headers)
}

/// Connects from an address of this machine; each of 127.0.0.0/8 is one.
pub(crate) fn connect_from(own: [u8; 4], address: SocketAddr) -> io::Result<TcpStream> {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    set_socket_recv_buffer_size(&socket, RECEIVE_BYTES)?;
    bind(&socket, &SocketAddr::new(IpAddr::from(own), 0))?;
    connect(&socket, &address)?;
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    Ok(stream)
}

/// A directory with certificates of one authority.
pub(crate) struct Certificates {
    dir: tempfile::TempDir,
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl Certificates {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let authority = CertifiedIssuer::self_signed(params, key).unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("ca.pem"), authority.pem()).unwrap();
        Self { dir, authority }
    }

    pub(crate) fn issue(&self, name: &str) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.authority).unwrap();
        self.write(&format!("{name}.pem"), &certificate.pem());
        self.write(&format!("{name}.key"), &key.serialize_pem());
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn connect(&self, address: SocketAddr, client: Option<&str>) -> io::Result<String> {
        ask(&mut self.encrypt(TcpStream::connect(address)?, client), "")
    }

    /// A connection of a client, with its certificate or without.
    pub(crate) fn encrypt<S: Read + Write>(
        &self,
        socket: S,
        client: Option<&str>,
    ) -> StreamOwned<ClientConnection, S> {
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
        StreamOwned::new(connection, socket)
    }
}
