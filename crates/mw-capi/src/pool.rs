//! Memory leased from a pool.

use crate::error::mw_error;
use crate::raw::{self, guard};
use crate::status::mw_status;
use mw_pool::protocol::Contents;
use mw_pool::{Attach, Attachment, Client, SOCKET};
use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::time::Duration;

/// Memory leased from a pool. It returns to the server when no process has it any more: forks of
/// this process have it too, until they detach it, end, or call exec.
pub struct mw_pool_memory(Attachment);

/// Leases memory from a pool: mapped contiguously, populated, and locked as far as this process may
/// lock memory. All or nothing.
///
/// socket: the server's socket; NULL for the default, /run/memwright-pool/pool.sock.
/// pool: the name of the pool. This text and the others are read only during the call.
/// bytes: the requested size, rounded up to whole stripes of the pool.
/// keep: a name under which the contents are kept when the memory is returned, and may have been
/// kept before by this user with this size: see mw_pool_is_kept(). NULL for zeroed memory that is
/// zeroed again.
/// wait_ns: how long to wait for memory that is being populated, zeroed or returned, and for a
/// server that restarts; 0 does not wait.
/// memory: receives the memory, to be returned with mw_pool_detach(); NULL on failure.
/// error: receives the error, to be freed with mw_error_free(); NULL on success. May be NULL.
/// Returns: MW_OK; MW_INVALID for NULL or an invalid name; MW_NO_SERVER, MW_REFUSED, MW_NOT_READY
/// or MW_SYSTEM.
/// Threads: may be called from any thread.
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function with strings")]
#[allow(clippy::missing_safety_doc, reason = "documented for C")]
pub unsafe extern "C" fn mw_pool_attach(
    socket: *const c_char,
    pool: *const c_char,
    bytes: u64,
    keep: *const c_char,
    wait_ns: u64,
    memory: Option<&mut MaybeUninit<Option<Box<mw_pool_memory>>>>,
    error: Option<&mut MaybeUninit<Option<Box<mw_error>>>>,
) -> mw_status {
    // SAFETY: the caller passes NULL or strings.
    let socket = if socket.is_null() { Ok(SOCKET) } else { unsafe { raw::text(socket) } };
    // SAFETY: as above.
    let pool = unsafe { raw::text(pool) };
    // SAFETY: as above.
    let keep = if keep.is_null() { Ok(None) } else { unsafe { raw::text(keep) }.map(Some) };
    let attached = match &memory {
        None => Err(mw_error::invalid("memory is NULL (pass a pointer that receives the memory)")),
        Some(_) => guard(Err(mw_error::internal()), || {
            let request = attach_request(pool?, bytes, keep?)?.wait(Duration::from_nanos(wait_ns));
            Ok(Box::new(mw_pool_memory(Client::new(socket?).attach(&request)?)))
        }),
    };
    let status = attached.as_ref().map_or_else(|error| error.status(), |_| mw_status::MW_OK);
    let (attached, why) =
        attached.map_or_else(|error| (None, Some(error)), |memory| (Some(memory), None));
    if let Some(memory) = memory {
        memory.write(attached);
    }
    if let Some(error) = error {
        error.write(why);
    }
    status
}

fn attach_request(pool: &str, bytes: u64, keep: Option<&str>) -> Result<Attach, String> {
    let name = |name: &str| name.parse().map_err(|error: mw_pool::BadName| error.to_string());
    let request = Attach::new(name(pool)?, bytes);
    Ok(match keep {
        Some(keep) => request.keep(name(keep)?),
        None => request,
    })
}

/// The address of leased memory: mw_pool_bytes() bytes can be read and written from there.
///
/// memory: leased memory, or NULL.
/// Returns: an address aligned to a huge page, valid until the memory is detached; NULL for NULL.
/// Threads: may be called from any thread while no other call detaches it.
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_pool_address(memory: Option<&mw_pool_memory>) -> *mut c_void {
    memory.map_or(ptr::null_mut(), |memory| memory.0.as_ptr().as_ptr().cast())
}

/// The size of leased memory in bytes.
///
/// memory: leased memory; 0 for NULL.
/// Threads: as mw_pool_address().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_pool_bytes(memory: Option<&mw_pool_memory>) -> usize {
    memory.map_or(0, |memory| memory.0.bytes())
}

/// True if the memory has contents that were kept; otherwise it is zeroed.
///
/// memory: leased memory, or NULL.
/// generation: receives how often the contents were leased before; unchanged if none were kept. May
/// be NULL.
/// dirty: receives whether the contents were not marked consistent, as after a kill; unchanged if
/// none were kept. May be NULL.
/// Threads: as mw_pool_address().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_pool_is_kept(
    memory: Option<&mw_pool_memory>,
    generation: Option<&mut MaybeUninit<u64>>,
    dirty: Option<&mut MaybeUninit<bool>>,
) -> bool {
    let Some(Contents::Kept { generation: leased_before, dirty: is_dirty }) =
        memory.map(|memory| memory.0.contents())
    else {
        return false;
    };
    if let Some(generation) = generation {
        generation.write(leased_before);
    }
    if let Some(dirty) = dirty {
        dirty.write(is_dirty);
    }
    true
}

/// Marks the contents as consistent: without it, contents that are kept are reported as dirty when
/// they are leased again. It cannot be undone, so call it last.
///
/// memory: leased memory, or NULL.
/// Returns: MW_OK; MW_INVALID for NULL; MW_SYSTEM if the server of this lease no longer exists.
/// Threads: as mw_pool_address().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_pool_mark_consistent(memory: Option<&mw_pool_memory>) -> mw_status {
    let Some(memory) = memory else { return mw_status::MW_INVALID };
    guard(mw_status::MW_INTERNAL, || match memory.0.mark_consistent() {
        Ok(()) => mw_status::MW_OK,
        Err(_) => mw_status::MW_SYSTEM,
    })
}

/// Detaches leased memory from this process. It returns to the server when every fork has detached
/// it too.
///
/// memory: leased memory, which must not be used afterwards. NULL is ignored.
/// Threads: may be called from any thread while no other call uses this memory.
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_pool_detach(memory: Option<Box<mw_pool_memory>>) {
    guard((), || drop(memory));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_send_and_sync() {
        fn check<T: Send + Sync>() {}
        check::<mw_pool_memory>();
    }
}
