//! No client gets memory that another one still has, or another user's contents, whatever clients, kernel
//! and server do in whatever order.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use mw_pool::lease_table::{
    AttachOutcome, LeaseId, LeaseTable, Ownership, PoolId, Requester, StripeId, StripeState,
};
use mw_pool::protocol::Contents;
use mw_pool::{NumaPolicy, Owners, PageSize, PoolSpec};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const MIB: u64 = 1 << 20;

#[derive(Debug, Clone)]
enum Event {
    Populate,
    Attach {
        user: u32,
        stripes: u64,
        keep: bool,
    },
    /// All copies of a lease's descriptor are closed, mapped or not.
    Close(usize),
    /// A mapping of a stripe goes away, or its pages are no longer held by a pipe.
    Unmap(usize),
    Unpin(usize),
    Pin(usize),
    Consistent(usize),
    CheckOwners,
    Zero {
        works: bool,
    },
    Release,
    Shrink,
    Grow,
    /// The server is killed, and the next one starts from what it wrote.
    Restart {
        lost: Option<usize>,
    },
}

fn event() -> impl Strategy<Value = Event> {
    let index = 0..8_usize;
    prop_oneof![
        3 => Just(Event::Populate),
        6 => (0..3_u32, 1..4_u64, any::<bool>())
            .prop_map(|(user, stripes, keep)| Event::Attach { user, stripes, keep }),
        4 => index.clone().prop_map(Event::Close),
        4 => index.clone().prop_map(Event::Unmap),
        1 => index.clone().prop_map(Event::Pin),
        1 => index.clone().prop_map(Event::Unpin),
        1 => index.clone().prop_map(Event::Consistent),
        4 => Just(Event::CheckOwners),
        4 => prop_oneof![4 => Just(true), 1 => Just(false)]
            .prop_map(|works| Event::Zero { works }),
        1 => Just(Event::Release),
        1 => Just(Event::Shrink),
        1 => Just(Event::Grow),
        1 => proptest::option::weighted(0.2, index).prop_map(|lost| Event::Restart { lost }),
    ]
}

/// The state of a stripe in the simulated kernel.
#[derive(Debug, Clone, Default)]
struct Memory {
    /// The clients that map it.
    mapped: BTreeSet<u32>,
    /// The clients that hold pages of it in a way that no count shows.
    pinned: BTreeSet<u32>,
    /// The users that have written to it since it was zero.
    written: BTreeSet<u32>,
}

/// The lease table and a simulated kernel.
struct World {
    table: LeaseTable,
    pool: PoolId,
    proves: bool,
    memory: BTreeMap<StripeId, Memory>,
    open: BTreeSet<LeaseId>,
    /// True if a server was started without a stripe that may be in use.
    lost: bool,
}

impl World {
    fn new(proves: bool, trusting: bool) -> Self {
        let mut table = LeaseTable::default();
        let spec = PoolSpec {
            name: "db".parse().unwrap(),
            bytes: 48 * MIB,
            pages: PageSize::Base,
            nodes: NumaPolicy::Default,
            owners: Owners::default(),
            trusting,
        };
        let pool = table.create(spec).unwrap();
        Self { table, pool, proves, memory: BTreeMap::new(), open: BTreeSet::new(), lost: false }
    }

    fn ownership(proves: bool, memory: &BTreeMap<StripeId, Memory>, id: StripeId) -> Ownership {
        match memory.get(&id) {
            _ if !proves => Ownership::Unknown,
            Some(memory) if memory.mapped.is_empty() => Ownership::Free,
            _ => Ownership::InUse,
        }
    }

    fn nth(&self, number: usize) -> Option<StripeId> {
        let ids: Vec<StripeId> = self.memory.keys().copied().collect();
        (!ids.is_empty()).then(|| ids[number % ids.len()])
    }

    fn lease(&self, number: usize) -> Option<LeaseId> {
        let ids: Vec<LeaseId> = self.open.iter().copied().collect();
        (!ids.is_empty()).then(|| ids[number % ids.len()])
    }

    fn apply(&mut self, event: &Event) {
        match *event {
            Event::Populate => {
                if let Some(stripe) = self.table.add_stripe(self.pool) {
                    self.memory.insert(stripe, Memory::default());
                }
            }
            Event::Attach { user, stripes, keep } => self.attach(user, stripes * 8 * MIB, keep),
            Event::Close(number) => {
                if let Some(lease) = self.lease(number) {
                    self.open.remove(&lease);
                    self.table.end_lease(lease);
                }
            }
            Event::Unmap(number) => self.with(number, |memory| memory.mapped.clear()),
            Event::Unpin(number) => self.with(number, |memory| memory.pinned.clear()),
            Event::Pin(number) => self.with(number, |memory| {
                memory.pinned.extend(memory.mapped.iter().copied());
            }),
            Event::Consistent(number) => {
                if let Some(lease) = self.lease(number) {
                    self.table.mark_consistent(lease);
                }
            }
            Event::CheckOwners => {
                let (proves, memory) = (self.proves, &self.memory);
                self.table.check_owners(&mut |id| Self::ownership(proves, memory, id));
            }
            Event::Zero { works } => self.zero(works),
            Event::Release => self.table.release(self.pool, None),
            Event::Shrink => drop(self.table.shrink(self.pool, 8 * MIB)),
            Event::Grow if self.table.bytes() < 64 * MIB => {
                self.table.grow(self.pool, 8 * MIB).unwrap();
            }
            Event::Grow => {}
            Event::Restart { lost } => {
                let lost = lost.and_then(|number| self.nth(number));
                self.lost |= lost.is_some();
                let open = self.open.clone();
                self.table.recover(&|id| Some(id) != lost, &|lease| open.contains(&lease));
            }
        }
        // The kernel frees what the table gave up once it is not in use.
        let table = &mut self.table;
        let given_up = |table: &LeaseTable, id| {
            table.stripe(id).is_none_or(|s| s.state == StripeState::Exchanged)
        };
        self.memory.retain(|id, memory| {
            let is_gone = given_up(table, *id) && memory.mapped.is_empty();
            if is_gone {
                table.freed(*id);
            }
            !is_gone
        });
        let bytes = self.memory.len() as u64 * 8 * MIB;
        assert!(self.lost || bytes <= table.bytes(), "{bytes} bytes are more than the pool's size");
        self.open.retain(|lease| table.lease(*lease).is_some());
    }

    fn with(&mut self, number: usize, change: impl FnOnce(&mut Memory)) {
        if let Some(memory) = self.nth(number).and_then(|id| self.memory.get_mut(&id)) {
            change(memory);
        }
    }

    fn zero(&mut self, works: bool) {
        let ids: Vec<StripeId> =
            self.table.stripes_that(|stripe| stripe.state == StripeState::Zeroing).collect();
        for id in ids {
            let memory = self.memory.get_mut(&id).unwrap();
            assert!(memory.mapped.is_empty(), "{id} is zeroed while it is mapped");
            if works {
                memory.written.clear();
            }
            self.table.end_zeroing(id, works);
        }
    }

    fn attach(&mut self, user: u32, bytes: u64, keep: bool) {
        let keep = keep.then(|| "cache".parse().unwrap());
        let (proves, memory) = (self.proves, &self.memory);
        let mut ownership = |id: StripeId| Self::ownership(proves, memory, id);
        let requester = Requester { user, process: 1 };
        let outcome = self.table.attach(self.pool, requester, bytes, keep, &mut ownership);
        let Ok(AttachOutcome::Granted { lease, stripes, contents }) = outcome else { return };
        assert_eq!(stripes.iter().collect::<BTreeSet<_>>().len(), stripes.len());
        assert_eq!(stripes.len() as u64, bytes / (8 * MIB));
        self.open.insert(lease);
        let trusting = self.table.pool(self.pool).unwrap().spec.trusting;
        for id in stripes {
            let memory = self.memory.get_mut(&id).unwrap();
            assert!(memory.mapped.is_empty(), "{id} is still {:?}'s", memory.mapped);
            let others = memory.pinned.iter().filter(|other| **other != user).count();
            assert!(trusting || others == 0, "{id} is in the pipe of {:?}", memory.pinned);
            match contents {
                Contents::Zeroed => assert!(memory.written.is_empty(), "{id} is not zero"),
                Contents::Kept { .. } => assert!(memory.written.iter().all(|who| *who == user)),
            }
            memory.mapped.insert(user);
            memory.written.insert(user);
        }
    }

    /// Nothing is lost: once everybody lets go, all of it is there again.
    fn settle(&mut self) {
        self.table.release(self.pool, None);
        for lease in std::mem::take(&mut self.open) {
            self.table.end_lease(lease);
        }
        self.memory.values_mut().for_each(|memory| memory.mapped.clear());
        for _ in 0..3 {
            self.apply(&Event::CheckOwners);
            self.memory.values_mut().for_each(|memory| memory.mapped.clear());
            self.apply(&Event::Release);
            self.apply(&Event::Zero { works: true });
        }
        while self.table.missing(self.pool) > 0 {
            self.apply(&Event::Populate);
        }
        let used = self.table.used(self.pool);
        assert_eq!(used.ready, self.table.bytes(), "{used:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    /// Promise (The pool): Nobody gets memory that somebody else still has, or another user's contents, whatever
    /// clients, kernel and server do in whatever order; when all clients are gone, all memory becomes ready again.
    #[test]
    fn no_client_gets_memory_in_use_or_another_users_contents(
        proves in prop_oneof![4 => Just(true), 1 => Just(false)],
        trusting in prop_oneof![4 => Just(false), 1 => Just(true)],
        events in proptest::collection::vec(event(), 1..80),
    ) {
        let mut world = World::new(proves, trusting);
        for event in &events {
            world.apply(event);
        }
        world.settle();
    }
}

#[test]
fn every_transition_of_a_stripe_is_covered() {
    let mut world = World::new(true, false);
    let attach = |user, keep| Event::Attach { user, stripes: 6, keep };
    (0..6).for_each(|_| world.apply(&Event::Populate));
    let used = |world: &World| {
        let used = world.table.used(world.pool);
        [used.ready, used.leased, used.draining, used.zeroing, used.kept, used.missing]
            .map(|bytes| bytes / (8 * MIB))
    };
    world.apply(&attach(1, false));
    assert_eq!(used(&world), [0, 6, 0, 0, 0, 0]);
    world.apply(&Event::Close(0));
    world.apply(&Event::CheckOwners);
    assert_eq!(used(&world), [0, 0, 6, 0, 0, 0], "it is still mapped");
    (0..6).for_each(|number| world.apply(&Event::Unmap(number)));
    world.apply(&Event::CheckOwners);
    assert_eq!(used(&world), [0, 0, 0, 6, 0, 0]);
    world.apply(&Event::Zero { works: true });
    assert_eq!(used(&world), [6, 0, 0, 0, 0, 0]);
    world.apply(&attach(2, true));
    assert_eq!(used(&world), [0, 0, 0, 0, 0, 6], "another user's is exchanged");
    (0..6).for_each(|_| world.apply(&Event::Populate));
    world.apply(&attach(2, true));
    world.apply(&Event::Close(0));
    (0..6).for_each(|number| world.apply(&Event::Unmap(number)));
    world.apply(&Event::CheckOwners);
    assert_eq!(used(&world), [0, 0, 0, 0, 6, 0]);
    world.apply(&Event::Restart { lost: None });
    assert_eq!(used(&world), [0, 0, 0, 0, 6, 0]);
    world.apply(&attach(1, true));
    assert_eq!(used(&world), [0, 0, 0, 0, 6, 0], "what is kept is another's");
    world.apply(&attach(2, true));
    assert_eq!(used(&world), [0, 6, 0, 0, 0, 0]);
    world.settle();
}
