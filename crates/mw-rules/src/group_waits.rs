//! Waits of a service's cgroup, divided by who made its tasks wait: its own limits, those of the groups above it, its own
//! threads, other groups, or the machine.
//!
//! The waits are pressure stall information of the group (Documentation/accounting/psi.rst): time in which some task of it
//! waited. The division is by counters of the same second; what no counter explains stays unknown.

use mw_model::{GroupUse, GroupWait, Resource, WaitOrigin};

/// Divides what the tasks of the group `service` waited between two samples. `uses` has the group, those above it and the
/// root.
#[must_use]
pub fn divide_waits(service: &str, uses: &[GroupUse]) -> Vec<GroupWait> {
    let Some(group) = uses.iter().find(|group| group.path == service) else { return Vec::new() };
    let above: Vec<&GroupUse> =
        uses.iter().filter(|other| is_above(&other.path, service)).collect();
    let memory = memory_origin(group, &above);
    let mut waits = Vec::new();
    let mut add = |resource, origin, waited_us: u64| {
        if waited_us > 0 {
            waits.push(GroupWait { resource, origin, waited_us });
        }
    };
    add(Resource::Memory, memory, group.memory_pressure_us.unwrap_or(0));
    let waited_us = group.io_pressure_us.unwrap_or(0);
    // Pages that a limit took are read again: the wait for the disk is that of the limit.
    let is_refault = memory.is_limit() && group.refaults_file.unwrap_or(0) > 0;
    add(Resource::Io, if is_refault { memory } else { WaitOrigin::Unknown }, waited_us);
    for (origin, waited_us) in divide_cpu(group, &above, uses) {
        add(Resource::Cpu, origin, waited_us);
    }
    waits
}

fn is_above(path: &str, service: &str) -> bool {
    let below = service.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
    path != "/" && below
}

/// Without its events, as where version 1 has the memory controller, the limits of a group are unknown. A task waits for memory where reclaim within a limit or the machine's makes it wait (mm/vmscan.c), and where it is
/// throttled over memory.high (mm/memcontrol.c).
fn memory_origin(group: &GroupUse, above: &[&GroupUse]) -> WaitOrigin {
    if met_limit(group) {
        WaitOrigin::OwnLimit
    } else if above.iter().any(|group| met_limit(group)) {
        WaitOrigin::LimitAbove
    } else if group.max_events.is_some() {
        WaitOrigin::Machine
    } else {
        WaitOrigin::Unknown
    }
}

fn met_limit(group: &GroupUse) -> bool {
    [group.high_events, group.max_events, group.swap_high_events]
        .into_iter()
        .any(|events| events.unwrap_or(0) > 0)
}

/// Throttled tasks count as waiting for a CPU. What is left is divided in proportion to the CPU time that the group
/// itself and all others used.
fn divide_cpu(group: &GroupUse, above: &[&GroupUse], uses: &[GroupUse]) -> [(WaitOrigin, u64); 4] {
    let waited = group.cpu_pressure_us.unwrap_or(0);
    let own_limit = group.throttled_wall_us().min(waited);
    let left = waited.saturating_sub(own_limit);
    let limit_above =
        above.iter().map(|group| group.throttled_wall_us()).max().unwrap_or(0).min(left);
    let left = left.saturating_sub(limit_above);
    let of_machine = uses.iter().find(|group| group.path == "/").and_then(|root| root.cpu_us);
    let share = group.cpu_us.zip(of_machine).filter(|(_, all)| *all > 0);
    let (itself, neighbour) = match share {
        Some((own, all)) => {
            let itself = (left as f64 * own.min(all) as f64 / all as f64) as u64;
            (itself, left.saturating_sub(itself))
        }
        None => (0, 0),
    };
    let unknown = left.saturating_sub(itself).saturating_sub(neighbour);
    [
        (WaitOrigin::OwnLimit, own_limit),
        (WaitOrigin::LimitAbove, limit_above),
        (WaitOrigin::Itself, itself),
        if neighbour > 0 {
            (WaitOrigin::Neighbour, neighbour)
        } else {
            (WaitOrigin::Unknown, unknown)
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVICE: &str = "/system.slice/db.service";

    fn of(path: &str) -> GroupUse {
        GroupUse { path: path.to_owned(), over_ms: 1000, ..GroupUse::default() }
    }

    fn divided(uses: &[GroupUse]) -> Vec<(Resource, WaitOrigin, u64)> {
        let waits = divide_waits(SERVICE, uses);
        waits.into_iter().map(|wait| (wait.resource, wait.origin, wait.waited_us)).collect()
    }

    #[test]
    fn a_wait_for_memory_is_that_of_the_lowest_limit_that_was_met() {
        let own = |max| GroupUse { memory_pressure_us: Some(9), max_events: max, ..of(SERVICE) };
        let slice = |high| GroupUse { high_events: high, ..of("/system.slice") };
        let other = GroupUse { max_events: Some(7), ..of("/system.slice/db.service-2") };
        let cases = [
            (Some(2), Some(1), WaitOrigin::OwnLimit),
            (Some(0), Some(1), WaitOrigin::LimitAbove),
            (Some(0), None, WaitOrigin::Machine),
            (None, None, WaitOrigin::Unknown),
        ];
        for (max, high, origin) in cases {
            let waits = divided(&[own(max), slice(high), other.clone()]);
            assert_eq!(waits, [(Resource::Memory, origin, 9)], "{max:?} {high:?}");
        }
    }

    #[test]
    fn a_disk_is_waited_for_because_of_a_limit_only_where_pages_are_read_again() {
        let group = |refaults| GroupUse {
            io_pressure_us: Some(5),
            refaults_file: Some(refaults),
            max_events: Some(1),
            ..of(SERVICE)
        };
        assert_eq!(divided(&[group(3)]), [(Resource::Io, WaitOrigin::OwnLimit, 5)]);
        assert_eq!(divided(&[group(0)]), [(Resource::Io, WaitOrigin::Unknown, 5)]);
    }

    #[test]
    fn a_wait_for_a_cpu_is_throttling_first_and_then_divided_by_use() {
        let group = GroupUse {
            cpu_pressure_us: Some(1000),
            throttled_us: Some(400),
            cpu_us: Some(250),
            ..of(SERVICE)
        };
        let root = GroupUse { cpu_us: Some(1000), ..of("/") };
        assert_eq!(
            divided(&[group.clone(), root]),
            [
                (Resource::Cpu, WaitOrigin::OwnLimit, 400),
                (Resource::Cpu, WaitOrigin::Itself, 150),
                (Resource::Cpu, WaitOrigin::Neighbour, 450),
            ]
        );
        assert_eq!(
            divided(&[group]),
            [(Resource::Cpu, WaitOrigin::OwnLimit, 400), (Resource::Cpu, WaitOrigin::Unknown, 600)]
        );
    }

    #[test]
    fn a_group_that_does_not_wait_has_no_waits() {
        assert!(divided(&[GroupUse { max_events: Some(1), ..of(SERVICE) }]).is_empty());
        assert!(divided(&[of("/")]).is_empty());
    }
}
