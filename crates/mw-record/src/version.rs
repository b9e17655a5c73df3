//! What identifies a recording and the version of its format.

/// `mwRE`: what `application_id` of a recording says.
pub const APPLICATION_ID: i32 = 0x6d77_5245;

/// Version of the format; a reader refuses a newer one, and a writer moves it aside. A recording of an older version is brought up
/// to this one when a writer opens it.
pub const FORMAT: u64 = 2;
