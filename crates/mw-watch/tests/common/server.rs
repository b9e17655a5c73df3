//! A web server that answers once slowly where that is asked for.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Starts it; when `slow` is set, the next answer takes so much longer. Its address.
pub(crate) fn serve(slow: &Arc<AtomicBool>, longer: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let slow = Arc::clone(slow);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.read(&mut [0; 1024]);
            if slow.swap(false, Ordering::SeqCst) {
                std::thread::sleep(longer);
            }
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            let _ = stream.write_all(answer);
        }
    });
    address
}
