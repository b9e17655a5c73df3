//! Functions on stacks.

/// Whether one of these functions is in a stack, whatever the compiler or the kernel has added to
/// its name (`compact_zone.isra.0`, `compact_zone+0x12/0x90`).
pub(crate) fn is_in(stack: &[String], functions: &[&str]) -> bool {
    let bare = |frame: &'_ str| frame.split(['.', '+']).next().unwrap_or_default().to_owned();
    stack.iter().any(|frame| functions.contains(&bare(frame).as_str()))
}
