//! Identification of a recording and the version of its format.

/// `mwRE`: what `application_id` of a recording says.
pub const APPLICATION_ID: i32 = 0x6d77_5245;

/// Version of the format; a reader refuses a newer one, and a writer moves it aside. Format 1 was never released.
pub const FORMAT: u64 = 2;
