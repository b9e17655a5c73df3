//! The owner of a cgroup, as operators call it: a systemd unit, a pod of Kubernetes, a container.
//!
//! Only the outermost owner counts: a user with a cgroup names those within it as he likes.

use crate::PartyKind;

/// Levels of a path that are searched for an owner.
const MAX_LEVELS: usize = 16;

/// Digits of a container's number that are shown, as its runtime shows them.
const SHORT_ID: usize = 12;

/// Digits of a container's number.
const ID_DIGITS: usize = 64;

/// The longest number of a pod.
const MAX_POD_BYTES: usize = 64;

/// Levels from `kubepods` down to a pod.
const POD_LEVELS: usize = 3;

/// The owner of a cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgroupOwner<'a> {
    /// A unit, a pod, a container, or a cgroup without any of these.
    pub kind: PartyKind,
    /// Its name; of a cgroup the path.
    pub name: String,
    /// The owner's cgroup: those below it are its own as well.
    pub root: &'a str,
}

/// The owner of a cgroup, by its path below the hierarchy's root.
#[must_use]
pub fn cgroup_owner(path: &str) -> CgroupOwner<'_> {
    pod(path)
        .or_else(|| container(path))
        .or_else(|| {
            let (name, root) = unit(path)?;
            Some(CgroupOwner { kind: PartyKind::Unit, name, root })
        })
        .unwrap_or_else(|| CgroupOwner {
            kind: PartyKind::Cgroup,
            name: path.to_owned(),
            root: path,
        })
}

/// The systemd unit of a cgroup: `db.service` of `/system.slice/db.service`; that of a user's manager with its user; or
/// `cgroup /path` where its path has none. The outermost unit counts, since its owner names those within.
#[must_use]
pub fn cgroup_name(path: &str) -> String {
    unit(path).map_or_else(|| format!("cgroup {path}"), |(name, _)| name)
}

/// The user whose cgroup it is, by the slice that systemd makes for each.
pub(crate) fn cgroup_user(path: &str) -> Option<u32> {
    let slice = path.strip_prefix("/user.slice/user-")?;
    slice.split('/').next()?.strip_suffix(".slice")?.parse().ok()
}

/// The levels of a path, each with the path down to it.
fn levels(path: &str) -> impl Iterator<Item = (&str, &str)> {
    let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
    ends.take(MAX_LEVELS).filter_map(|end| {
        let root = path.get(..end)?;
        let name = root.rsplit('/').next()?;
        (!name.is_empty()).then_some((name, root))
    })
}

/// The outermost unit with its cgroup.
fn unit(path: &str) -> Option<(String, &str)> {
    let is_unit = |(part, _): &(&str, &str)| {
        let name = part.strip_suffix(".service").or_else(|| part.strip_suffix(".scope"));
        let is_plain = |c: char| c.is_ascii_alphanumeric() || ":_.@\\-".contains(c);
        name.is_some_and(|name| !name.is_empty() && name.chars().all(is_plain))
    };
    let mut units = levels(path).skip_while(|(part, _)| part.ends_with(".slice"));
    let (unit, root) = units.next().filter(is_unit)?;
    let user = unit.strip_prefix("user@").and_then(|rest| rest.strip_suffix(".service"));
    let own = units.find(|(part, _)| !part.ends_with(".slice")).filter(is_unit);
    match (user, own) {
        (Some(user), Some((own, root))) => Some((format!("{own} of user {user}"), root)),
        _ => Some((unit.to_owned(), root)),
    }
}

/// The pod: `/kubepods/burstable/podUID` or `/kubepods.slice/…/kubepods-burstable-podUID.slice`, also below `kubelet`.
fn pod(path: &str) -> Option<CgroupOwner<'_>> {
    let is_above = |(name, _): &(&str, &str)| matches!(*name, "kubelet" | "kubelet.slice");
    let mut below = levels(path).skip_while(is_above);
    let first = below.next()?;
    let is_kubernetes = matches!(first.0, "kubepods" | "kubepods.slice" | "kubelet-kubepods.slice");
    let found = below.take(POD_LEVELS).find_map(|(name, root)| Some((pod_uid(name)?, root)));
    let (name, root) = found.filter(|_| is_kubernetes)?;
    Some(CgroupOwner { kind: PartyKind::Pod, name, root })
}

/// A slice has `_` for each `-` of the number.
fn pod_uid(name: &str) -> Option<String> {
    let uid = match name.strip_suffix(".slice") {
        Some(slice) => slice.rsplit_once("-pod")?.1,
        None => name.strip_prefix("pod")?,
    };
    let is_uid = |c: char| c.is_ascii_hexdigit() || c == '-' || c == '_';
    let is_one = !uid.is_empty() && uid.len() <= MAX_POD_BYTES && uid.chars().all(is_uid);
    is_one.then(|| uid.replace('_', "-"))
}

/// The container: `/system.slice/docker-ID.scope`, `/machine.slice/libpod-ID.scope`, `/docker/ID`, `/lxc.payload.NAME`.
fn container(path: &str) -> Option<CgroupOwner<'_>> {
    const RUNTIMES: [&str; 5] = ["docker-", "libpod-", "crio-", "cri-containerd-", "nerdctl-"];
    let mut outer = levels(path).skip_while(|(name, _)| name.ends_with(".slice"));
    let (first, root) = outer.next()?;
    let owner = |name: &str, root| {
        Some(CgroupOwner { kind: PartyKind::Container, name: name.to_owned(), root })
    };
    if let Some(name) = first.strip_prefix("lxc.payload.") {
        return owner(name, root);
    }
    if matches!(first, "docker" | "libpod_parent" | "lxc") {
        let (name, root) = outer.next()?;
        let id = name.strip_prefix("libpod-").unwrap_or(name);
        return match first {
            "lxc" => owner(name, root),
            _ => owner(short_id(id)?, root),
        };
    }
    let scope = first.strip_suffix(".scope")?;
    let id = RUNTIMES.iter().find_map(|runtime| scope.strip_prefix(runtime))?;
    owner(short_id(id)?, root)
}

fn short_id(id: &str) -> Option<&str> {
    let is_id = id.len() == ID_DIGITS && id.bytes().all(|digit| digit.is_ascii_hexdigit());
    id.get(..SHORT_ID).filter(|_| is_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, kind: PartyKind, name: &str, root: &str) {
        let found = cgroup_owner(path);
        assert_eq!((found.kind, found.name.as_str(), found.root), (kind, name, root), "{path}");
    }

    #[test]
    fn pods_and_containers_are_named_by_the_paths_of_all_runtimes() {
        const ID: &str = "0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9";
        const UID: &str = "1f0e7c5a-8b2d-4d0c-9a77-3c9f5b1e2d64";
        let slice = format!("kubepods-burstable-pod{}.slice", UID.replace('-', "_"));
        let below = |root: &str| format!("{root}/cri-containerd-{ID}.scope");
        let of_pod = [
            format!("/kubepods.slice/kubepods-burstable.slice/{slice}"),
            format!("/kubepods.slice/kubepods-pod{}.slice", UID.replace('-', "_")),
            format!("/kubepods/besteffort/pod{UID}"),
            format!("/kubepods/pod{UID}"),
            format!("/kubelet/kubepods/burstable/pod{UID}"),
        ];
        for root in &of_pod {
            check(&below(root), PartyKind::Pod, UID, root);
            check(root, PartyKind::Pod, UID, root);
        }
        for root in [
            format!("/system.slice/docker-{ID}.scope"),
            format!("/machine.slice/libpod-{ID}.scope"),
            format!("/docker/{ID}"),
            format!("/libpod_parent/libpod-{ID}"),
        ] {
            check(&format!("{root}/init"), PartyKind::Container, &ID[..SHORT_ID], &root);
        }
        check("/lxc.payload.web/init.scope", PartyKind::Container, "web", "/lxc.payload.web");
        check("/lxc/web/x", PartyKind::Container, "web", "/lxc/web");
        let of_user = "/user.slice/user-1000.slice/user@1000.service";
        let own = format!("{of_user}/user.slice/libpod-{ID}.scope");
        check(&own, PartyKind::Unit, &format!("libpod-{ID}.scope of user 1000"), &own);
    }

    #[test]
    fn units_have_their_cgroup_and_what_is_below() {
        let db = "/system.slice/db.service";
        check(db, PartyKind::Unit, "db.service", db);
        check("/system.slice/db.service/a/b", PartyKind::Unit, "db.service", db);
        check("/batch/a", PartyKind::Cgroup, "/batch/a", "/batch/a");
        check("/", PartyKind::Cgroup, "/", "/");
        check("", PartyKind::Cgroup, "", "");
        assert_eq!(cgroup_user("/user.slice/user-1000.slice/session-3.scope"), Some(1000));
        assert_eq!(cgroup_user("/mine/user.slice/user-0.slice"), None);
    }

    /// Promise (Blame): A cgroup below that of a unit or a user takes no other's name.
    #[test]
    fn whoever_has_a_cgroup_names_no_other() {
        let mine = "/user.slice/user-7.slice/user@7.service/x.service";
        check(&format!("{mine}/kubepods/pod1"), PartyKind::Unit, "x.service of user 7", mine);
        check(
            "/mine/kubepods/poda",
            PartyKind::Cgroup,
            "/mine/kubepods/poda",
            "/mine/kubepods/poda",
        );
        check("/docker/mine", PartyKind::Cgroup, "/docker/mine", "/docker/mine");
        check("/kubepods/podx y", PartyKind::Cgroup, "/kubepods/podx y", "/kubepods/podx y");
    }

    #[test]
    fn a_unit_is_the_outermost_and_a_users_is_called_so() {
        for (path, name) in [
            ("/system.slice/db.service", "db.service"),
            ("/system.slice/postgres.slice/db@1.service/worker", "db@1.service"),
            ("/system.slice/docker-0a.scope/db.service", "docker-0a.scope"),
            (
                "/user.slice/user-1000.slice/user@1000.service/app.slice/db.service",
                "db.service of user 1000",
            ),
            ("/user.slice/user-1000.slice/session-3.scope", "session-3.scope"),
            ("/batch", "cgroup /batch"),
            ("/", "cgroup /"),
            ("/mine/db.service", "cgroup /mine/db.service"),
            (
                "/x was stopped by root; run y.service",
                "cgroup /x was stopped by root; run y.service",
            ),
            ("/.service", "cgroup /.service"),
        ] {
            assert_eq!(cgroup_name(path), name);
        }
    }
}
