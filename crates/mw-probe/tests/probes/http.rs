//! Python's own web server.

use crate::real::{Server, command, folder, port, program};
use crate::{answers, fails, start};
use rustix::process::Signal;

#[test]
fn a_web_server_answers_stalls_and_recovers() {
    let python = program(&["/usr/bin/python3", "/usr/local/bin/python3"], "python3");
    let (folder, port) = (folder("nobody"), port());
    let mut command = command("nobody", &python);
    command.args(["-m", "http.server", "--bind", "127.0.0.1", "--directory"]);
    command.arg(folder.path()).arg(port.to_string());
    let server = Server::start(&mut command, folder, Signal::TERM);
    let prober = server.probe(&format!("http://127.0.0.1:{port}/"));
    assert_eq!(prober.spec().name, format!("http-{port}"));
    answers(&prober);
    server.stall(&prober);
    assert_eq!(
        fails(&start(&format!("http://127.0.0.1:{port}/none"), 5_000)),
        "status 404 File not found"
    );
}
