use super::{Capabilities, FailedSteps, NodeState, RequestPart, RoomConsent, next, plan, split};
use mw_model::{Answer, Request, RoomStep, RoomStepKind};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const NONE: RoomConsent = RoomConsent { swap: false, migrate: false };
const SWAP: RoomConsent = RoomConsent { swap: true, migrate: false };
const BOTH: RoomConsent = RoomConsent { swap: true, migrate: true };
const ALL: Capabilities =
    Capabilities { reclaim: true, compact: true, consent: NONE, has_swap: false };

/// An empty pool of 2 MiB pages on a node with so much free, of which so much is whole, and so much clean cache.
fn pool(free: u64, whole: u64, clean: u64, reach: (u64, u64)) -> NodeState {
    NodeState {
        page_bytes: 2 * MIB,
        is_pool: true,
        is_huge: true,
        whole,
        free,
        clean,
        reach: Some(reach),
        ..NodeState::default()
    }
}

fn base(free: u64, clean: u64) -> NodeState {
    NodeState {
        page_bytes: 4096,
        available: free,
        whole: free,
        free,
        clean,
        reach: Some((free + clean, free + clean)),
        ..NodeState::default()
    }
}

/// The steps with their sizes in MiB, and the answer.
#[track_caller]
fn check(
    state: &NodeState,
    goal: u64,
    capabilities: Capabilities,
    answer: Answer,
    expected: &[(RoomStepKind, u64)],
) {
    let plan =
        plan(std::slice::from_ref(state), &[RequestPart { node: 0, bytes: goal }], capabilities);
    let steps: Vec<(RoomStepKind, u64)> =
        plan.steps.iter().map(|step| (step.kind, step.bytes / MIB)).collect();
    assert_eq!(steps, expected);
    assert_eq!(plan.answer(), answer, "{plan:?}");
}

#[test]
fn what_is_there_needs_no_step() {
    check(&base(4 * GIB, 0), 2 * GIB, ALL, Answer::Yes, &[]);
    let ready = NodeState { available: GIB, ..pool(0, 0, 0, (0, 0)) };
    check(&ready, GIB, ALL, Answer::Yes, &[]);
}

#[test]
fn the_pool_grows_from_free_blocks_before_anything_is_reclaimed() {
    let state = pool(4 * GIB, 3 * GIB, 8 * GIB, (10 * GIB, 11 * GIB));
    check(&state, 2 * GIB, ALL, Answer::Yes, &[(RoomStepKind::GrowPool, 2048)]);
}

#[test]
fn compaction_comes_when_the_sum_is_there() {
    use RoomStepKind::{Compact, ForcePool, GrowPool, Reclaim};
    let state = pool(4 * GIB, GIB, 8 * GIB, (10 * GIB, 11 * GIB));
    check(&state, 2 * GIB, ALL, Answer::Yes, &[(GrowPool, 1024), (ForcePool, 1024)]);
    // The kernel's own effort may swap.
    let has_swap = Capabilities { has_swap: true, ..ALL };
    let enough = [(GrowPool, 1024), (Compact, 1024), (GrowPool, 1024)];
    check(&state, 2 * GIB, has_swap, Answer::Yes, &enough);
    // Of 6 GiB, 2 come from what is free and not whole; pages that are moved need targets.
    let state = pool(4 * GIB, GIB, 8 * GIB, (10 * GIB, 11 * GIB));
    let reclaimed = [(GrowPool, 1024), (Reclaim, 2688), (Compact, 5120), (GrowPool, 5120)];
    check(&state, 6 * GIB, has_swap, Answer::Yes, &reclaimed);
}

#[test]
fn cache_that_sequential_readers_left_behind_goes_first() {
    use RoomStepKind::{DropRead, Reclaim};
    let state = NodeState { left_behind: GIB, ..base(GIB, 4 * GIB) };
    check(&state, 3 * GIB, ALL, Answer::Yes, &[(DropRead, 1024), (Reclaim, 1024)]);
    check(&state, GIB + 512 * MIB, ALL, Answer::Yes, &[(DropRead, 512)]);
}

#[test]
fn what_is_out_of_reach_is_a_no_and_what_may_be_is_unknown() {
    let plan_of = |goal| {
        let state = pool(4 * GIB, GIB, 8 * GIB, (6 * GIB, 7 * GIB));
        plan(&[state], &[RequestPart { node: 0, bytes: goal }], ALL).answer()
    };
    assert_eq!(plan_of(6 * GIB), Answer::Yes);
    assert_eq!(plan_of(7 * GIB), Answer::Unknown);
    assert_eq!(plan_of(7 * GIB + 2 * MIB), Answer::No);
}

/// Promise (Fixing): `make-room` swaps nothing out without consent, takes no step for what cannot be reached, and
/// does not repeat one that gained nothing.
#[test]
fn nothing_is_swapped_without_consent() {
    use RoomStepKind::{Reclaim, Swap};
    let has_swap = Capabilities { has_swap: true, ..ALL };
    let steps = plan(&[base(GIB, GIB)], &[RequestPart { node: 0, bytes: 3 * GIB }], has_swap).steps;
    assert!(steps.iter().all(|step| step.kind == Reclaim), "{steps:?}");
    let may_swap = Capabilities { consent: SWAP, ..has_swap };
    let state = NodeState { swappable: 4 * GIB, ..base(GIB, GIB) };
    let steps = plan(&[state], &[RequestPart { node: 0, bytes: 3 * GIB }], may_swap).steps;
    assert_eq!(steps.last().map(|step| step.kind), Some(Swap));
    // The kernel may swap by itself for a page of the pool.
    let state = pool(0, 0, GIB, (0, GIB));
    let by_itself = |capabilities| {
        let alone = Capabilities { reclaim: false, compact: false, ..capabilities };
        next(&state, GIB, alone, &mut FailedSteps::default()).map(|step| step.kind)
    };
    assert_eq!(by_itself(has_swap), None);
    assert_eq!(by_itself(may_swap), Some(RoomStepKind::ForcePool));
}

#[test]
fn memory_is_moved_to_other_nodes_before_any_is_swapped_out() {
    use RoomStepKind::{Migrate, Reclaim, Swap};
    let capabilities = Capabilities { consent: BOTH, has_swap: true, ..ALL };
    let state = NodeState {
        swappable: 4 * GIB,
        movable: GIB,
        target: Some(RequestPart { node: 1, bytes: GIB }),
        ..base(GIB, GIB)
    };
    let goal = [RequestPart { node: 0, bytes: 4 * GIB }];
    let steps = plan(std::slice::from_ref(&state), &goal, capabilities).steps;
    let kinds: Vec<_> = steps.iter().map(|step| (step.kind, step.bytes / GIB)).collect();
    assert_eq!(kinds, [(Reclaim, 1), (Migrate, 1), (Swap, 1)]);
    let steps = plan(&[state], &goal, Capabilities { consent: SWAP, ..capabilities }).steps;
    assert!(steps.iter().all(|step| step.kind != Migrate), "{steps:?}");
}

#[test]
fn steps_in_vain_end() {
    for capabilities in
        [ALL, Capabilities::default(), Capabilities { consent: BOTH, has_swap: true, ..ALL }]
    {
        for state in [
            pool(4 * GIB, GIB, 8 * GIB, (0, GIB)),
            pool(0, 0, 0, (0, 0)),
            base(GIB, 64 * GIB),
            NodeState { left_behind: GIB, swappable: GIB, ..pool(64 * MIB, 0, GIB, (0, GIB)) },
            NodeState {
                movable: 8 * GIB,
                target: Some(RequestPart { node: 1, bytes: 9 * GIB }),
                ..base(GIB, 64 * GIB)
            },
        ] {
            let mut tried = FailedSteps::default();
            let mut steps = 0;
            while let Some(step) = next(&state, 128 * GIB, capabilities, &mut tried) {
                tried.note(&step, 0);
                steps += 1;
                assert!(steps < 32, "{state:?}: {step:?}");
            }
        }
    }
}

#[test]
fn a_step_is_repeated_only_while_it_helps() {
    let state = pool(4 * GIB, 0, 0, (2 * GIB, 3 * GIB));
    let mut tried = FailedSteps::default();
    let mut kinds = |gained| {
        let step: RoomStep = next(&state, 2 * GIB, ALL, &mut tried).unwrap();
        tried.note(&step, gained);
        step.kind
    };
    let seen = [GIB, 0, GIB, 0, 0, 0, 0, 0, 0].map(&mut kinds);
    use RoomStepKind::{Compact, ForcePool};
    let in_vain = [ForcePool, Compact, Compact, ForcePool, Compact, ForcePool];
    assert_eq!(seen[..3], [ForcePool, ForcePool, Compact]);
    assert_eq!(seen[3..], in_vain);
}

#[test]
fn for_gigantic_pages_the_kernel_moves_what_is_in_the_way() {
    use RoomStepKind::{ForcePool, Reclaim};
    let gigantic =
        NodeState { page_bytes: GIB, is_gigantic: true, ..pool(GIB, 0, 4 * GIB, (0, 4 * GIB)) };
    // Reclaim before it would only cost: the kernel drops the cache that is in the way.
    check(&gigantic, 2 * GIB, ALL, Answer::Unknown, &[(ForcePool, 2048)]);
    // Nothing is swapped for it: the first page has its targets, and for the second one cache makes way.
    let has_swap = Capabilities { has_swap: true, ..ALL };
    let steps = [(ForcePool, 1024), (Reclaim, 1024), (ForcePool, 1024)];
    check(&gigantic, 2 * GIB, has_swap, Answer::Unknown, &steps);
}

#[test]
fn no_cache_is_dropped_for_a_gigantic_page_that_is_not_to_be_had() {
    use RoomStepKind::ForcePool;
    let gigantic =
        NodeState { page_bytes: GIB, is_gigantic: true, ..pool(GIB, 0, 4 * GIB, (0, 4 * GIB)) };
    let mut tried = FailedSteps::default();
    let mut steps = Vec::new();
    while let Some(step) = next(&gigantic, GIB, ALL, &mut tried) {
        tried.note(&step, 0);
        steps.push(step.kind);
    }
    assert_eq!(steps, [ForcePool; 3]);
}

#[test]
fn what_the_watermarks_keep_is_not_taken() {
    let state = pool(6 * MIB, 0, 0, (0, GIB));
    let exhausted = Capabilities { reclaim: false, compact: false, ..ALL };
    let step = next(&state, GIB, exhausted, &mut FailedSteps::default());
    assert_eq!(step.map(|step| (step.kind, step.bytes)), Some((RoomStepKind::ForcePool, 6 * MIB)));
    let state = pool(MIB, 0, 0, (0, GIB));
    assert_eq!(next(&state, GIB, exhausted, &mut FailedSteps::default()), None);
}

#[test]
fn a_request_is_split_by_what_is_there_then_by_what_is_sure() {
    let parts = |request: &str, states: &[NodeState]| {
        let request: Request = request.parse().unwrap();
        let parts = split(states, &request);
        parts.iter().map(|part| (part.node, part.bytes / MIB)).collect::<Vec<_>>()
    };
    let zero = pool(4 * GIB, GIB, 8 * GIB, (6 * GIB, 7 * GIB));
    let one = NodeState { node: 1, ..pool(8 * GIB, 4 * GIB, 0, (6 * GIB, 7 * GIB)) };
    let both = [zero, one];
    assert_eq!(parts("1G,huge=2M", &both), [(0, 1024)]);
    assert_eq!(parts("3G,huge=2M", &both), [(0, 1024), (1, 2048)]);
    assert_eq!(parts("8G,huge=2M", &both), [(0, 4096), (1, 4096)]);
    assert_eq!(parts("3M,huge=2M", &both), [(0, 4)]);
    assert_eq!(parts("20G,huge=2M", &both), [(0, 7168), (1, 13312)]);
}
