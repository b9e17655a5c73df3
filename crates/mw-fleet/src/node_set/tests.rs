use super::*;
use proptest::prelude::*;

#[test]
fn sets_are_read_as_slurm_and_clustershell_write_them() {
    let check = |set: &str, names: &str| {
        assert_eq!(expand(set).map(|names| names.join(" ")), Ok(names.to_owned()), "{set}");
    };
    check("n1", "n1");
    check("n[1-3,7],gpu2", "n1 n2 n3 n7 gpu2");
    check(
        "n[008-011].example.org",
        "n008.example.org n009.example.org n010.example.org n011.example.org",
    );
    check("r[1-2]n[01-02]", "r1n01 r1n02 r2n01 r2n02");
    check("n1, n1,,n2", "n1 n2");
    check("10.0.0.[1-2]", "10.0.0.1 10.0.0.2");
    check("fe80::1", "fe80::1");
}

#[test]
fn what_is_no_set_is_refused_in_words() {
    for (set, why) in [
        ("", "no node"),
        ("n[1-3", "no ']'"),
        ("n1]", "misplaced ']'"),
        ("n[[1]]", "misplaced '['"),
        ("n[3-1]", "invalid range '3-1'"),
        ("n[a]", "invalid range 'a'"),
        ("n[0-4000000000]", "more than"),
        ("n[0-999][0-999]", "more than"),
        ("-oProxyCommand=x", "invalid name"),
        ("n1;reboot", "invalid name"),
    ] {
        let error = expand(set).unwrap_err();
        assert!(error.contains(why), "{set}: {error}");
    }
    let wide = format!("n[{}1]", "0".repeat(70_000));
    assert!(expand(&wide).unwrap_err().contains("more than 253 digits"));
}

#[test]
fn names_are_written_as_one_set() {
    let fold = |names: &str| {
        let names: Vec<String> = names.split(' ').map(str::to_owned).collect();
        super::fold(&names)
    };
    assert_eq!(fold("n1"), "n1");
    assert_eq!(fold("n2 n1 n3 n7 gpu2"), "gpu2,n[1-3,7]");
    assert_eq!(fold("n008 n009 n010 n9"), "n9,n[008-010]");
    assert_eq!(fold("a1.x.org a2.x.org"), "a[1-2].x.org");
    assert_eq!(fold("10.0.0.1 10.0.0.2 login"), "10.0.0.1,10.0.0.2,login");
}

proptest! {
    /// Promise (Fixing): A node set that is written is read as the same nodes, by ClusterShell's rules.
    #[test]
    fn what_is_written_is_read_as_the_same_nodes(
        names in prop::collection::btree_set("[a-c]{1,2}[0-9]{0,3}(\\.x)?", 1..40),
    ) {
        let names: Vec<String> = names.into_iter().collect();
        let mut again = expand(&fold(&names)).unwrap();
        again.sort();
        prop_assert_eq!(again, names);
    }

    #[test]
    fn any_text_is_taken(set in "[-a-z0-9\\[\\],.: ]{0,40}") {
        if let Ok(names) = expand(&set) {
            prop_assert!(names.iter().all(|name| is_name(name)));
        }
    }
}
