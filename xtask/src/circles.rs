//! No files of a crate refer to each other in a circle: neither can be read, or moved, without the
//! other. What both need belongs into a file below them.
//!
//! A file refers to those whose items it names. A module that only declares and re-exports others
//! defines nothing, and is in no circle; so are tests.

mod references;

use crate::workspace::{read, root};
use references::{ModulePath, References};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of imports and re-exports from a name to its definition.
const IMPORTS_MAX: usize = 8;

/// Circles that remain to be broken: the crate and its modules. No new entry is accepted.
const REMAINING: &[(&str, &[&str])] = &[];

/// By the path of the module that each file is.
type Modules = BTreeMap<ModulePath, References>;

/// The modules that each refers to, with one path that it writes.
type Graph<'m> = BTreeMap<&'m ModulePath, BTreeMap<&'m ModulePath, &'m ModulePath>>;

pub(crate) fn run() -> anyhow::Result<()> {
    let mut problems = Vec::new();
    for entry in root().join("crates").read_dir()? {
        problems.extend(problems_of(&entry?.path())?);
    }
    for folder in ["accuracy", "docgen", "eval", "xtask"] {
        problems.extend(problems_of(&root().join(folder))?);
    }
    anyhow::ensure!(problems.is_empty(), "{}", problems.join("\n"));
    Ok(())
}

fn problems_of(folder: &std::path::Path) -> anyhow::Result<Vec<String>> {
    let mut modules = Modules::new();
    add_files(&folder.join("src"), &ModulePath::new(), &mut modules)?;
    drop_tests(&mut modules);
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let remaining: Vec<&[&str]> = REMAINING
        .iter()
        .filter(|(crate_name, _)| *crate_name == name)
        .map(|(_, members)| *members)
        .collect();
    let problems = judge(&circles(&modules), &remaining);
    Ok(problems.into_iter().map(|problem| format!("{name}: {problem}")).collect())
}

fn add_files(
    folder: &std::path::Path,
    module: &ModulePath,
    modules: &mut Modules,
) -> anyhow::Result<()> {
    let is_library = folder.join("lib.rs").exists();
    for entry in folder.read_dir()? {
        let path = entry?.path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut inner = module.clone();
        if !["lib", "main", "mod"].contains(&stem.as_str()) {
            inner.push(stem.clone());
        }
        if path.is_dir() {
            add_files(&path, &inner, modules)?;
        } else if path.extension().is_some_and(|end| end == "rs") && !(is_library && stem == "main")
        {
            modules.insert(inner, references::parse(&read(&path)?));
        }
    }
    Ok(())
}

/// Drops the files that only tests declare.
fn drop_tests(modules: &mut Modules) {
    let is_declared = |module: &ModulePath| {
        (0..module.len()).all(|depth| {
            let parent = modules.get(&module[..depth]);
            parent.is_some_and(|parent| parent.modules.contains(&module[depth]))
        })
    };
    let declared: BTreeSet<ModulePath> =
        modules.keys().filter(|module| is_declared(module)).cloned().collect();
    modules.retain(|module, _| declared.contains(module));
}

/// Modules that refer to each other, and what each names of the others.
#[derive(Debug, PartialEq)]
struct Circle {
    members: Vec<String>,
    references: String,
}

/// New circles, and remaining ones that are gone.
fn judge(circles: &[Circle], remaining: &[&[&str]]) -> Vec<String> {
    let is_known = |circle: &Circle, known: &[&str]| {
        circle.members.iter().all(|member| known.contains(&member.as_str()))
    };
    let new =
        circles.iter().filter(|circle| !remaining.iter().any(|known| is_known(circle, known)));
    let gone =
        remaining.iter().filter(|known| !circles.iter().any(|circle| is_known(circle, known)));
    new.map(|circle| format!("files in a circle: {}", circle.references))
        .chain(gone.map(|known| {
            let members = known.join(", ");
            format!("no circle of {members} remains: remove it from xtask/src/circles.rs")
        }))
        .collect()
}

fn circles(modules: &Modules) -> Vec<Circle> {
    let graph = graph(modules);
    let reached: BTreeMap<&ModulePath, BTreeSet<&ModulePath>> =
        graph.keys().map(|module| (*module, reached(&graph, module))).collect();
    let mut seen = BTreeSet::new();
    let mut circles = Vec::new();
    for (module, below) in &reached {
        if !below.contains(module) || seen.contains(module) {
            continue;
        }
        let members: BTreeSet<&ModulePath> =
            below.iter().copied().filter(|other| reached[other].contains(module)).collect();
        circles.push(Circle {
            members: members.iter().map(|member| name(member)).collect(),
            references: describe(&graph, &members),
        });
        seen.extend(members);
    }
    circles
}

fn describe(graph: &Graph, members: &BTreeSet<&ModulePath>) -> String {
    let mut references = Vec::new();
    for member in members {
        for (other, path) in graph[member].iter().filter(|(other, _)| members.contains(*other)) {
            references.push(format!("{} uses {} ({})", name(member), name(other), path.join("::")));
        }
    }
    references.join(", ")
}

fn name(module: &ModulePath) -> String {
    if module.is_empty() { "the root".to_owned() } else { module.join("::") }
}

fn graph(modules: &Modules) -> Graph<'_> {
    let mut graph = Graph::new();
    for (module, references) in modules {
        let mut targets = BTreeMap::new();
        for path in &references.used {
            let target = definer(modules, module, path, IMPORTS_MAX);
            if let Some(target) = target.filter(|target| *target != module) {
                targets.entry(target).or_insert(path);
            }
        }
        graph.insert(module, targets);
    }
    graph
}

fn reached<'m>(graph: &Graph<'m>, start: &ModulePath) -> BTreeSet<&'m ModulePath> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&ModulePath> = graph[start].keys().copied().collect();
    while let Some(module) = next.pop() {
        if reached.insert(module) {
            next.extend(graph[module].keys().copied());
        }
    }
    reached
}

/// The module of this crate that defines what a path names, as written in `from`; none for a module
/// itself, whose name alone is no use of what it defines, and for what other crates define.
fn definer<'m>(
    modules: &'m Modules,
    from: &'m ModulePath,
    path: &[String],
    imports_left: usize,
) -> Option<&'m ModulePath> {
    let (first, mut rest) = path.split_first()?;
    let mut at = match first.as_str() {
        "crate" => ModulePath::new(),
        "self" => from.clone(),
        "super" => from[..from.len().checked_sub(1)?].to_vec(),
        _ => {
            rest = path;
            from.clone()
        }
    };
    let is_relative = rest.len() == path.len();
    while let Some((name, behind)) = rest.split_first() {
        let inner: ModulePath = at.iter().chain([name]).cloned().collect();
        if name == "super" {
            at.pop();
        } else if modules.contains_key(&inner) {
            at = inner;
        } else if let Some(import) = modules.get(&at).and_then(|module| module.imports.get(name)) {
            let (at, _) = modules.get_key_value(&at)?;
            let longer: ModulePath = import.iter().chain(behind).cloned().collect();
            return definer(modules, at, &longer, imports_left.checked_sub(1)?);
        } else {
            let is_unknown = is_relative && at == *from;
            return modules.get_key_value(&at).map(|(at, _)| at).filter(|_| !is_unknown);
        }
        rest = behind;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made-up files, by the path of the module.
    fn check(files: &[(&str, &str)], expected: &[&str]) {
        let module = |name: &str| -> ModulePath {
            name.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect()
        };
        let mut modules: Modules =
            files.iter().map(|(name, text)| (module(name), references::parse(text))).collect();
        drop_tests(&mut modules);
        let circles = circles(&modules);
        let found: Vec<&str> = circles.iter().map(|circle| circle.references.as_str()).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_remaining_circle_may_shrink_but_not_grow() {
        let circle = |members: &[&str]| Circle {
            members: members.iter().map(|member| (*member).to_owned()).collect(),
            references: members.join(" and "),
        };
        let known: &[&[&str]] = &[&["a", "b", "c"]];
        assert!(judge(&[circle(&["a", "b"])], known).is_empty());
        assert_eq!(judge(&[circle(&["a", "b"])], &[]), ["files in a circle: a and b"]);
        let grown = judge(&[circle(&["a", "d"])], known);
        assert_eq!(grown.len(), 2, "{grown:?}");
        assert!(judge(&[], known)[0].contains("remove it"));
    }

    #[test]
    fn files_that_use_each_other_are_a_circle() {
        let root = ("", "mod a; mod b; mod c;");
        let one_way =
            [root, ("a", "use crate::b::B;"), ("b", "struct B;"), ("c", "use crate::a::A;")];
        check(&one_way, &[]);
        let both = [
            root,
            ("a", "use crate::b::B; pub struct A(B);"),
            ("b", "struct B(super::a::A);"),
            ("c", ""),
        ];
        check(&both, &["a uses b (crate::b::B), b uses a (super::a::A)"]);
        let three = [
            root,
            ("a", "use super::b::f;"),
            ("b", "fn f() { crate::c::g() }"),
            ("c", "use crate::a;\nfn g() { a::h() }"),
        ];
        check(&three, &["a uses b (super::b::f), b uses c (crate::c::g), c uses a (a::h)"]);
    }

    #[test]
    fn a_parent_is_in_a_circle_only_with_items_of_its_own() {
        let children = [("a::b", "use super::C; struct B;"), ("a::c", "pub struct C;")];
        let root = ("", "mod a;");
        check(
            &[&[root, ("a", "mod b; mod c; pub use b::B; use c::C;")], &children[..]].concat(),
            &[],
        );
        let child = ("a::b", "fn f() { super::g() }");
        check(&[root, ("a", "mod b; fn g() {}"), child], &[]);
        check(
            &[root, ("a", "mod b; fn g() { b::f() }"), child],
            &["a uses a::b (b::f), a::b uses a (super::g)"],
        );
        check(&[root, ("a", "mod b; pub use b::f; fn g() {}"), child], &[]);
        check(
            &[root, ("a", "mod b; pub use b::f; fn g() { f() }"), child],
            &["a uses a::b (f), a::b uses a (super::g)"],
        );
    }

    #[test]
    fn names_are_followed_to_where_they_are_defined() {
        let files = [
            ("", "mod a; mod b; pub use a::{A as Renamed, std::fmt};"),
            ("a", "use crate::b; pub struct A(b::B);"),
            ("b", "use crate::Renamed; use std::fmt; pub struct B(fmt::Error, Renamed);"),
        ];
        check(&files, &["a uses b (b::B), b uses a (crate::Renamed)"]);
    }

    #[test]
    fn tests_are_in_no_circle() {
        let files = [
            ("", "mod a;"),
            ("a", "fn f() {} #[cfg(test)] mod tests;"),
            ("a::tests", "mod made; use super::f; fn g() { made::h() }"),
            ("a::tests::made", "use super::g;"),
        ];
        check(&files, &[]);
    }
}
