use super::*;
use std::time::{Duration, Instant};

fn policy(users: &[(&str, &str, u32)]) -> ConnectionPolicy {
    let hashed = |(user, password, cost): &(&str, &str, u32)| {
        let text = bcrypt::hash(password, *cost).unwrap();
        ((*user).to_owned(), PasswordHash { text, cost: *cost })
    };
    let most = users.iter().map(|(.., cost)| *cost).max().unwrap();
    ConnectionPolicy { tls: None, users: users.iter().map(hashed).collect(), max_cost: most }
}

fn header(text: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(text))
}

fn is_right(remembered: &CredentialCache, policy: &ConnectionPolicy, header: Option<&str>) -> bool {
    match remembered.verdict(policy, header) {
        AuthOutcome::Right => true,
        AuthOutcome::Wrong => false,
        AuthOutcome::Unverified(question) => remembered.is_right(&question),
    }
}

#[test]
fn a_password_is_compared_with_its_hash() {
    let users = policy(&[("prom", "secret", 4)]);
    let remembered = CredentialCache::new().unwrap();
    for _ in 0..2 {
        assert!(is_right(&remembered, &users, Some(&header("prom:secret"))));
        for wrong in ["prom:Secret", "prom:", "nobody:secret", "prom"] {
            assert!(!is_right(&remembered, &users, Some(&header(wrong))), "{wrong}");
        }
    }
    assert!(!is_right(&remembered, &users, None));
    assert!(!is_right(&remembered, &users, Some("Bearer x")));
    let changed = policy(&[("prom", "other", 4)]);
    assert!(!is_right(&remembered, &changed, Some(&header("prom:secret"))));
}

#[test]
fn a_password_that_was_right_is_not_verified_again() {
    let users = policy(&[("prom", "secret", 4)]);
    let remembered = CredentialCache::new().unwrap();
    let verdict = |text: &str| remembered.verdict(&users, Some(&header(text)));
    let AuthOutcome::Unverified(question) = verdict("prom:secret") else { unreachable!("unknown") };
    assert!(remembered.is_right(&question));
    assert!(matches!(verdict("prom:secret"), AuthOutcome::Right));
    assert!(matches!(verdict("prom:wrong"), AuthOutcome::Unverified(_)));
}

/// The least of some runs: what the machine does beside it only adds.
fn refusal(policy: &ConnectionPolicy, user: &str) -> Duration {
    let remembered = CredentialCache::new().unwrap();
    let header = header(&format!("{user}:wrong"));
    let time = |_| {
        let start = Instant::now();
        assert!(!is_right(&remembered, policy, Some(&header)));
        start.elapsed()
    };
    (0..5).map(time).min().unwrap()
}

#[test]
fn the_time_of_a_refusal_names_no_user() {
    for users in [&[("cheap", "a", 4)][..], &[("cheap", "a", 4), ("dear", "b", 7)]] {
        let policy = policy(users);
        let unknown = refusal(&policy, "nobody");
        for (user, ..) in users {
            let known = refusal(&policy, user);
            let ratio = known.as_secs_f64() / unknown.as_secs_f64();
            assert!((0.5..2.0).contains(&ratio), "{user}: {known:?}, nobody: {unknown:?}");
        }
    }
}
