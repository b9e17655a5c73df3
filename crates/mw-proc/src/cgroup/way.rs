//! How a cgroup is reached from a mount of its hierarchy.

/// The way from the group at a mount point to another group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// By this path below the mount point, empty for the group at the mount point itself.
    Named(String),
    /// By so many groups whose names nobody tells, then this path.
    Unnamed(usize, String),
    /// Not at all: the mount shows another part of the hierarchy.
    None,
}

impl Way {
    /// The way from a mount of the group `root` (/proc/self/mountinfo) to the group `path`
    /// (/proc/self/cgroup). The kernel tells both relative to the root of the reader's cgroup
    /// namespace; above that root it says `..` and no names.
    #[must_use]
    pub fn new(root: &str, path: &str) -> Self {
        let ((root_up, root), (up, path)) = (split(root), split(path));
        let path = match path.strip_prefix(root.as_str()) {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => rest.to_owned(),
            _ => return Self::None,
        };
        match root_up.checked_sub(up) {
            Some(0) => Self::Named(path),
            Some(levels) if root.is_empty() => Self::Unnamed(levels, path),
            _ => Self::None,
        }
    }

    /// How many groups the mount shows on the way, our own one included.
    #[must_use]
    pub fn groups(&self) -> usize {
        let named = |path: &str| path.matches('/').count().saturating_add(1);
        match self {
            Self::Named(path) => named(path),
            Self::Unnamed(levels, path) => named(path).saturating_add(*levels),
            Self::None => 0,
        }
    }
}

/// How many levels a path goes up first, and the path from there: `/a/b`, or nothing.
fn split(path: &str) -> (usize, String) {
    let parts = || path.split('/').filter(|part| !part.is_empty());
    let up = parts().take_while(|part| *part == "..").count();
    (up, parts().skip(up).map(|part| format!("/{part}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(path: &str) -> Way {
        Way::Named(path.to_owned())
    }

    #[test]
    fn to_our_own_group() {
        // A machine; a container that has its own group mounted; one in a namespace of its own.
        assert_eq!(Way::new("/", "/a/b"), named("/a/b"));
        assert_eq!(Way::new("/docker/1", "/docker/1"), named(""));
        assert_eq!(Way::new("/", "/"), named(""));
        // Moved out of the namespace's root, with a mount of what is above.
        assert_eq!(Way::new("/..", "/../other"), named("/other"));
        // A new namespace over the machine's own mount.
        assert_eq!(Way::new("/../..", "/"), Way::Unnamed(2, String::new()));
        assert_eq!(Way::new("/../..", "/x"), Way::Unnamed(2, "/x".to_owned()));
        assert_eq!(Way::new("/../..", "/../x"), Way::Unnamed(1, "/x".to_owned()));
    }

    #[test]
    fn a_mount_that_does_not_show_our_own_group() {
        assert_eq!(Way::new("/docker/1", "/docker/2"), Way::None);
        assert_eq!(Way::new("/docker/1", "/docker/12"), Way::None);
        assert_eq!(Way::new("/", "/../other"), Way::None);
        assert_eq!(Way::new("/../other", "/"), Way::None);
        assert_eq!(Way::new("/a", "/"), Way::None);
    }

    #[test]
    fn the_more_groups_it_shows_the_better() {
        let groups = |root, path| Way::new(root, path).groups();
        assert_eq!([groups("/", "/a/b"), groups("/a", "/a/b"), groups("/c", "/a/b")], [3, 2, 0]);
        assert_eq!(groups("/../..", "/"), 3);
    }
}
