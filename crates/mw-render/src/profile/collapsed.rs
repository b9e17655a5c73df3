//! Collapsed stacks: `task;outermost;…;innermost count`, a line each, as flame graph programs read
//! them.

use mw_model::Profile;

/// The profile, a line a stack.
pub fn render(profile: &Profile) -> String {
    let mut text = String::new();
    for stack in &profile.stacks {
        text.push_str(&clean(&stack.task));
        for name in profile.names(stack) {
            text.push(';');
            text.push_str(&clean(name));
        }
        text.push_str(&format!(" {}\n", stack.samples));
    }
    text
}

/// A name without what separates frames and lines.
fn clean(name: &str) -> String {
    name.replace(';', ":").replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_line_a_stack() {
        let text = super::render(&crate::profile::example());
        assert_eq!(
            text,
            "mysqld;do_syscall_64;__alloc_pages;compaction_alloc 40\n\
             a:b ;do_syscall_64 2\nx;[unknown] 1\n"
        );
    }
}
