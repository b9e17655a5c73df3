//! Messages with descriptors over a Unix socket.

use crate::protocol::{MAX_MESSAGE_BYTES, MAX_STRIPES};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

/// The lease's own descriptor, and its stripes'.
const MAX_DESCRIPTORS: usize = MAX_STRIPES + 1;

#[derive(Debug)]
pub(crate) struct ReceivedMessage {
    /// Empty if the other end is closed.
    pub(crate) bytes: Vec<u8>,
    pub(crate) descriptors: Vec<OwnedFd>,
    /// True if it was longer than a message may be.
    pub(crate) truncated: bool,
}

/// Sends one message.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let flags = flags | SendFlags::NOSIGNAL;
    let sent = sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags)?;
    if sent == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// A message to the server, which accepts no descriptors.
#[cfg(feature = "server")]
#[derive(Debug)]
pub(crate) struct WithoutDescriptors {
    /// Empty if the other end is closed.
    pub(crate) bytes: Vec<u8>,
    /// True if it was longer than a message may be.
    pub(crate) truncated: bool,
    /// True if it came with descriptors, which the kernel dropped.
    pub(crate) had_descriptors: bool,
}

/// Receives one message without its descriptors: the kernel drops them before they are installed
/// here. A received descriptor would have to be closed, and close(2) may wait for ever for the file's
/// provider: a FUSE daemon need not answer its flush.
#[cfg(feature = "server")]
pub(crate) fn receive_without_descriptors(
    socket: BorrowedFd<'_>,
) -> io::Result<WithoutDescriptors> {
    let mut bytes = vec![0; MAX_MESSAGE_BYTES];
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let mut control = RecvAncillaryBuffer::default();
    let got = recvmsg(socket, &mut parts, &mut control, RecvFlags::DONTWAIT)?;
    bytes.truncate(got.bytes);
    let has = |flag| got.flags.contains(flag);
    Ok(WithoutDescriptors {
        bytes,
        truncated: has(ReturnFlags::TRUNC),
        had_descriptors: has(ReturnFlags::CTRUNC),
    })
}

/// Receives one message and its descriptors. The kernel closes those that are too many.
pub(crate) fn receive(socket: BorrowedFd<'_>, flags: RecvFlags) -> io::Result<ReceivedMessage> {
    let mut bytes = vec![0; MAX_MESSAGE_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = flags | RecvFlags::CMSG_CLOEXEC;
    let got = recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags)?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(more) = message {
            descriptors.extend(more);
        }
    }
    bytes.truncate(got.bytes);
    Ok(ReceivedMessage { bytes, descriptors, truncated: got.flags.contains(ReturnFlags::TRUNC) })
}
