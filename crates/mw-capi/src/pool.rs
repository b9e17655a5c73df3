//! Memory of a pool, which a server keeps warm.

use crate::error::mw_error;
use crate::raw::{self, guard};
use crate::status::mw_status;
use mw_pool::protocol::Contents;
use mw_pool::{Attach, Attachment, Client, SOCKET};
use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::time::Duration;

/// Memory of a pool. It goes back to its server when no process has it any more: forks of this one
/// have it too, until they detach it, end, or replace themselves by exec.
pub struct mw_pool_memory(Attachment);

/// Takes memory of a pool, mapped in one piece, with every page in place, and locked in memory as
/// far as this process may. All or nothing.
///
/// socket: the server's socket; NULL for where it usually is, /run/memwright-pool/pool.sock.
/// pool: the name of the pool. This text and the others are read during the call alone.
/// bytes: how much; rounded up to what the pool is made of.
/// keep: a name under which the contents are kept when the memory goes back, and may have been
/// kept before, by this user and of this size: see mw_pool_is_kept(). NULL for memory that is zero
/// now, and zeroed again.
/// wait_ns: how long to wait for memory that is being populated, zeroed or given back, and for a
/// server that is started again; 0 does not wait.
/// memory: where it is put, to be given back with mw_pool_detach(); NULL is put there if it cannot
/// be had.
/// error: where it is put why not, to be freed with mw_error_free(); NULL is put there if it can.
/// May be NULL for who does not want to know.
/// Returns: MW_OK; MW_INVALID for what is NULL or no name; MW_NO_SERVER, MW_REFUSED, MW_NOT_READY
/// or MW_SYSTEM.
/// Threads: may be called from any.
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "a name for C, and strings from C")]
#[allow(clippy::missing_safety_doc, reason = "said in the words of C")]
pub unsafe extern "C" fn mw_pool_attach(
    socket: *const c_char,
    pool: *const c_char,
    bytes: u64,
    keep: *const c_char,
    wait_ns: u64,
    memory: Option<&mut MaybeUninit<Option<Box<mw_pool_memory>>>>,
    error: Option<&mut MaybeUninit<Option<Box<mw_error>>>>,
) -> mw_status {
    // SAFETY: the caller answers for the texts.
    let socket = if socket.is_null() { Ok(SOCKET) } else { unsafe { raw::text(socket) } };
    // SAFETY: as above.
    let pool = unsafe { raw::text(pool) };
    // SAFETY: as above.
    let keep = if keep.is_null() { Ok(None) } else { unsafe { raw::text(keep) }.map(Some) };
    let made = match &memory {
        None => Err(mw_error::invalid("memory is NULL; say where it is to be put")),
        Some(_) => guard(Err(mw_error::internal()), || {
            let wanted = wanted(pool?, bytes, keep?)?.wait(Duration::from_nanos(wait_ns));
            Ok(Box::new(mw_pool_memory(Client::new(socket?).attach(&wanted)?)))
        }),
    };
    let status = made.as_ref().map_or_else(|error| error.status(), |_| mw_status::MW_OK);
    let (made, why) = made.map_or_else(|error| (None, Some(error)), |made| (Some(made), None));
    if let Some(memory) = memory {
        memory.write(made);
    }
    if let Some(error) = error {
        error.write(why);
    }
    status
}

fn wanted(pool: &str, bytes: u64, keep: Option<&str>) -> Result<Attach, String> {
    let name = |name: &str| name.parse().map_err(|error: mw_pool::BadName| error.to_string());
    let wanted = Attach::new(name(pool)?, bytes);
    Ok(match keep {
        Some(keep) => wanted.keep(name(keep)?),
        None => wanted,
    })
}

/// Where memory of a pool starts: as many bytes as mw_pool_bytes() says can be read and written
/// from there on.
///
/// memory: memory of a pool, or NULL.
/// Returns: an address that is aligned to huge pages and valid until the memory is detached; NULL
/// for NULL.
/// Threads: may be called from any, while no other call detaches it.
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "a name for C")]
pub extern "C" fn mw_pool_address(memory: Option<&mw_pool_memory>) -> *mut c_void {
    memory.map_or(ptr::null_mut(), |memory| memory.0.as_ptr().as_ptr().cast())
}

/// The size of memory of a pool in bytes.
///
/// memory: memory of a pool; NULL has 0.
/// Threads: as mw_pool_address().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "a name for C")]
pub extern "C" fn mw_pool_bytes(memory: Option<&mw_pool_memory>) -> usize {
    memory.map_or(0, |memory| memory.0.bytes())
}

/// Whether memory came with contents that were kept; otherwise it came zeroed.
///
/// memory: memory of a pool, or NULL.
/// generation: where it is put how often they were handed out before; left alone if none were
/// kept. May be NULL.
/// dirty: where it is put whether nobody had called them consistent, as after a kill; left alone
/// if none were kept. May be NULL.
/// Threads: as mw_pool_address().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "a name for C")]
pub extern "C" fn mw_pool_is_kept(
    memory: Option<&mw_pool_memory>,
    generation: Option<&mut MaybeUninit<u64>>,
    dirty: Option<&mut MaybeUninit<bool>>,
) -> bool {
    let Some(Contents::Kept { generation: handed_out, dirty: is_dirty }) =
        memory.map(|memory| memory.0.contents())
    else {
        return false;
    };
    if let Some(generation) = generation {
        generation.write(handed_out);
    }
    if let Some(dirty) = dirty {
        dirty.write(is_dirty);
    }
    true
}

/// Says that the contents may be used after this process: without it, contents that are kept are
/// called dirty when they are handed out again. It holds for good, so that it is said last.
///
/// memory: memory of a pool, or NULL.
/// Returns: MW_OK; MW_INVALID for NULL; MW_SYSTEM where the server that gave it is gone for good.
/// Threads: as mw_pool_address().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "a name for C")]
pub extern "C" fn mw_pool_mark_consistent(memory: Option<&mw_pool_memory>) -> mw_status {
    let Some(memory) = memory else { return mw_status::MW_INVALID };
    guard(mw_status::MW_INTERNAL, || match memory.0.mark_consistent() {
        Ok(()) => mw_status::MW_OK,
        Err(_) => mw_status::MW_SYSTEM,
    })
}

/// Gives memory back, in this process: its server has it again when every fork has let go as well.
///
/// memory: memory of a pool, which must not be used afterwards; NULL is ignored.
/// Threads: may be called from any, while no other call uses this memory.
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "a name for C")]
pub extern "C" fn mw_pool_detach(memory: Option<Box<mw_pool_memory>>) {
    guard((), || drop(memory));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_go_from_thread_to_thread() {
        fn shared<T: Send + Sync>() {}
        shared::<mw_pool_memory>();
    }
}
