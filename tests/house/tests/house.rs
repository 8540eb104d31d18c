//! The rules of the house, applied to all files of the repository. `exceptions.toml`, `names.toml` and `allowed.toml`, beside this
//! crate's manifest, list the exceptions, each with its reason.

use house::circles::{Modules, circles};
use house::documents::mentions;
use house::sources::lines_for_tests;
use house::types::{Declared, Places, crate_of};
use house::workspace::{files, is_for_tests, read, root, test_modules};
use house::{Finding, counters, errors, literals, manifests, prose, skips, sources, types, unsafe_code};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::LazyLock;
use toml::Table;

/// Fails with all findings at once, each with its file and line.
#[track_caller]
fn none(rule: &str, findings: Vec<(String, Finding)>) {
    let lines: Vec<String> =
        findings.into_iter().map(|(file, f)| format!("  {file}:{}: {}", f.line, f.what)).collect();
    assert!(lines.is_empty(), "{rule}:\n{}", lines.join("\n"));
}

fn each<F: IntoIterator<Item = Finding>>(
    files: &[String],
    check: impl Fn(&str, &str) -> F,
) -> Vec<(String, Finding)> {
    let findings = |path: &String| {
        let found: Vec<Finding> = check(path, &read(path)).into_iter().collect();
        found.into_iter().map(|finding| (path.clone(), finding)).collect::<Vec<_>>()
    };
    files.iter().flat_map(findings).collect()
}

fn table(path: &str) -> Table {
    read(path).parse().unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A list of `exceptions.toml`: each exception with its reason.
fn exceptions(list: &str) -> BTreeMap<String, String> {
    let reasons = manifests::allowed(&table("tests/house/exceptions.toml"), list);
    for (name, reason) in &reasons {
        assert!(reason.len() >= 10, "exceptions.toml [{list}] gives no reason for {name}");
        let file = name.split("::").next().unwrap_or(name);
        assert!(root().join(file).exists(), "exceptions.toml [{list}] names {file}, which does not exist");
    }
    reasons
}

/// The files of all crates, of the product and of the laboratory, whose names end in `ending`.
fn of_crates(ending: &str) -> Vec<String> {
    [files("product", ending), files("lab", ending)].concat()
}

/// The folder of a crate.
fn folder(name: &str) -> String {
    let wing = if manifests::LABORATORY.contains(&name) { "lab" } else { "product" };
    format!("{wing}/{name}")
}

fn crates() -> Vec<(String, manifests::Dependencies)> {
    let manifest = |path: &String| {
        let name = path.split('/').nth(1).unwrap_or_default().to_owned();
        (name, manifests::dependencies(&table(path)))
    };
    let found: Vec<_> = of_crates("Cargo.toml").iter().map(manifest).collect();
    assert_eq!(
        found.len(),
        manifests::FLOORS.iter().map(|floor| floor.len()).sum::<usize>(),
        "crates on floors"
    );
    found
}

fn all_sources() -> Vec<String> {
    let found = [of_crates(".rs"), files("tests", ".rs"), files("fuzz", ".rs")].concat();
    assert!(found.len() > 50, "only {} sources found", found.len());
    found
}

/// The sources from which the command is built.
fn product_sources() -> Vec<String> {
    let mut product = all_sources();
    product.retain(|path| (path.starts_with("product/") || path.starts_with("lab/")) && !is_for_tests(path));
    let of_tests: Vec<String> = product.iter().flat_map(|path| test_modules(path, &read(path))).collect();
    product.retain(|path| !of_tests.contains(path));
    product
}

#[test]
fn each_crate_uses_only_floors_below() {
    let findings = crates().into_iter().flat_map(|(name, dependencies)| {
        let found =
            [manifests::above(&name, &dependencies), manifests::impure(&name, &dependencies)].concat();
        found.into_iter().map(move |finding| (format!("{}/Cargo.toml", folder(&name)), finding))
    });
    none("floors of the house (docs/architecture.md)", findings.collect());
}

/// All crates of the workspace on which `name` depends.
fn built_with(name: &str) -> BTreeSet<String> {
    let crates: BTreeMap<_, _> = crates().into_iter().collect();
    let (mut found, mut next) = (BTreeSet::new(), vec![name.to_owned()]);
    while let Some(one) = next.pop() {
        let dependencies = crates.get(&one).into_iter().flat_map(|d| &d.built);
        for dependency in dependencies.filter(|d| crates.contains_key(*d)) {
            if found.insert(dependency.clone()) {
                next.push(dependency.clone());
            }
        }
    }
    found
}

/// The laboratory may be left away: nothing of the product is built with it.
#[test]
fn the_product_knows_nothing_of_the_laboratory() {
    let all = crates();
    let laboratory = |name: &str| manifests::LABORATORY.contains(&name);
    assert!(manifests::LABORATORY.iter().all(|name| all.iter().any(|(other, _)| other == name)));
    let misplaced = all.iter().map(|(name, _)| format!("{}/Cargo.toml", folder(name)));
    let misplaced: Vec<_> = misplaced.filter(|path| !root().join(path).exists()).collect();
    assert_eq!(misplaced, Vec::<String>::new(), "a crate in the folder of the other wing");
    assert!(built_with("weft-lab").contains("weft-sim"), "the check sees nothing");
    for (name, _) in all.iter().filter(|(name, _)| !laboratory(name)) {
        let with: Vec<_> = built_with(name).into_iter().filter(|other| laboratory(other)).collect();
        assert_eq!(with, Vec::<String>::new(), "{name} is of the product");
    }
}

#[test]
fn a_replay_builds_no_ebpf() {
    let host = |name: &str| built_with(name).contains("weft-host");
    assert!(host("weft-run"), "the check sees nothing");
    assert!(!host("weft-replay"), "{:?}", built_with("weft-replay"));
}

#[test]
fn each_dependency_is_allowed_for_a_reason() {
    let path = "tests/house/allowed.toml";
    let list = table(path);
    let mut findings = Vec::new();
    let mut keys = vec!["prices".to_owned()];
    let mut all = BTreeSet::new();
    for (name, used) in crates() {
        all.extend(used.built.union(&used.dev).cloned());
        for (key, used) in [(name.clone(), &used.built), (format!("{name}-tests"), &used.dev)] {
            findings.extend(manifests::not_allowed(&key, used, &manifests::allowed(&list, &key)));
            keys.push(key);
        }
    }
    findings.extend(manifests::without_price(&all, &list));
    let unknown = list.keys().filter(|key| !keys.contains(key));
    findings.extend(unknown.map(|key| Finding::at(0, format!("[{key}] is no crate"))));
    none("dependencies", findings.into_iter().map(|f| (path.to_owned(), f)).collect());
}

#[test]
fn each_manifest_has_the_licence_and_the_licences_are_there() {
    let manifests =
        [vec!["Cargo.toml".to_owned()], of_crates("Cargo.toml"), files("tests", "Cargo.toml")].concat();
    none("licence", each(&manifests, |path, _| manifests::licence(&table(path))));
    assert!(read("LICENSE-MIT").contains("Permission is hereby granted, free of charge"));
    assert!(read("LICENSE-APACHE").contains("Apache License"));
}

#[test]
fn each_module_says_what_it_is() {
    none("module comments", each(&all_sources(), |_, source| sources::module_comment(source)));
}

#[test]
fn documents_of_items_begin_with_a_noun_or_a_verb() {
    none("first lines", each(&all_sources(), |_, source| prose::clauses(source)));
}

#[test]
fn functions_are_short() {
    let excepted = exceptions("long-functions");
    let check = |path: &str, source: &str| {
        let here = excepted.keys().filter_map(|name| name.strip_prefix(path)?.strip_prefix("::"));
        sources::long_functions(source, &here.collect::<Vec<_>>())
    };
    none("long functions", each(&product_sources(), check));
    for name in excepted.keys() {
        let (path, function) = name.split_once("::").expect("FILE::FUNCTION");
        let there = sources::functions(&read(path)).into_iter().any(|f| f.name == function);
        assert!(there, "exceptions.toml names the function {name}, which does not exist");
    }
}

/// In `weft` the parsers of options may keep texts: clap only prints them.
#[test]
fn errors_of_interfaces_have_types() {
    let mut libraries = product_sources();
    libraries.retain(|path| !path.starts_with("product/weft/"));
    none("errors as texts", each(&libraries, |_, source| errors::texts(source)));
}

/// Exceptions are named `CRATE MODULE`, the parent of the modules that use each other.
#[test]
fn modules_of_a_crate_go_in_no_circle() {
    let sources = of_crates(".rs");
    let tests: BTreeSet<String> = sources.iter().flat_map(|path| test_modules(path, &read(path))).collect();
    let excepted = manifests::allowed(&table("tests/house/exceptions.toml"), "circles");
    let mut found = BTreeMap::new();
    for (name, _) in crates() {
        let folder = format!("{}/src/", folder(&name));
        let mut modules = Modules::default();
        for path in sources.iter().filter(|path| path.starts_with(&folder) && !tests.contains(*path)) {
            modules.add(path, &read(path));
        }
        for (parent, uses) in modules.uses() {
            let circles = circles(&uses);
            if !circles.is_empty() {
                found.insert(format!("{name} {}", parent.join("::")).trim_end().to_owned(), circles);
            }
        }
    }
    let unused: Vec<&String> = excepted.keys().filter(|place| !found.contains_key(*place)).collect();
    assert!(unused.is_empty(), "exceptions.toml [circles] names places without circles: {unused:?}");
    found.retain(|place, _| !excepted.contains_key(place));
    assert!(found.is_empty(), "modules that use each other:\n{found:#?}");
}

/// A list of `names.toml`: by name, the crates in which it occurs, each as often as it does.
fn places(list: &str) -> Places {
    let table = table("tests/house/names.toml");
    let entries = table[list].as_table().expect("a list of names").iter().map(|(name, entry)| {
        let reason = entry.get("why").and_then(|why| why.as_str()).unwrap_or_default();
        assert!(reason.len() >= 10, "names.toml [{list}] gives no reason for {name}");
        let crates = entry.get("in").and_then(|crates| crates.as_array()).into_iter().flatten();
        (name.clone(), crates.filter_map(|one| one.as_str()).map(str::to_owned).collect())
    });
    entries.collect()
}

/// Compares what is found with a list of `names.toml`, in both directions.
#[track_caller]
fn as_listed<T: PartialEq + std::fmt::Debug>(
    list: &str,
    found: &BTreeMap<String, T>,
    listed: &BTreeMap<String, T>,
) {
    let other = found.iter().filter(|(name, one)| listed.get(*name) != Some(one));
    let other = other.map(|(name, one)| format!("  {name} is not in the list, or other than {one:?}"));
    let unused = listed.keys().filter(|name| !found.contains_key(*name));
    let lines: Vec<String> =
        other.chain(unused.map(|name| format!("  {name} is in the list without need"))).collect();
    assert!(lines.is_empty(), "names.toml [{list}]:\n{}", lines.join("\n"));
}

/// The types of all crates.
static TYPES: LazyLock<Vec<Declared>> = LazyLock::new(|| {
    let sources = product_sources().into_iter().filter(|path| path.contains("/src/"));
    let sources: Vec<(String, String)> = sources.map(|path| (types::code(&read(&path)), path)).collect();
    let macros = sources.iter().flat_map(|(code, _)| types::macros(code)).collect();
    let found: Vec<_> =
        sources.iter().flat_map(|(code, path)| types::declared(path, code, &macros)).collect();
    assert!(found.len() > 1000, "only {} types found", found.len());
    found
});

#[test]
fn a_public_type_has_a_name_of_its_own() {
    as_listed("types", &types::double_names(&TYPES), &places("types"));
}

#[test]
fn no_two_structs_have_equal_fields() {
    let listed = manifests::allowed(&table("tests/house/names.toml"), "equal-structs");
    let without: Vec<_> = listed.iter().filter(|(_, reason)| reason.len() < 10).collect();
    assert!(without.is_empty(), "names.toml [equal-structs] gives no reason: {without:?}");
    let mut found = types::equal_structs(&TYPES);
    for (structs, fields) in &mut found {
        println!("{structs}: {fields}");
        if let Some(reason) = listed.get(structs) {
            fields.clone_from(reason);
        }
    }
    as_listed("equal-structs", &found, &listed);
}

/// Only the tables of counters know the names in them.
#[test]
fn a_counter_is_declared_once() {
    let tables = "product/weft-facts/src/counters.rs";
    let names = counters::names(&read(tables));
    assert!(names.len() >= 15, "only {names:?}");
    let mut spelled = Places::new();
    for path in product_sources().iter().filter(|path| *path != tables) {
        for (name, finding) in counters::spelled(&read(path), &names) {
            println!("{path}:{}: {}", finding.line, finding.what);
            let crates = spelled.entry(name).or_default();
            if !crates.iter().any(|one| one == crate_of(path)) {
                crates.push(crate_of(path).to_owned());
            }
        }
    }
    spelled.values_mut().for_each(|crates| crates.sort());
    as_listed("words-of-counters", &spelled, &places("words-of-counters"));
    let others = TYPES.iter().filter(|one| one.path != tables && counters::is_table(one, &names));
    let others = others.map(|one| (one.name.clone(), vec![one.of().to_owned()])).collect();
    as_listed("tables-of-counters", &others, &places("tables-of-counters"));
}

/// The lines of the files, those of tests apart: files for tests, and what other files build for tests only.
fn lines_of(paths: &[String]) -> [usize; 2] {
    let of_tests: BTreeSet<String> = paths.iter().flat_map(|path| test_modules(path, &read(path))).collect();
    let (mut src, mut tests) = (0, 0);
    for path in paths {
        let source = read(path);
        let all = source.lines().count();
        let inside =
            if is_for_tests(path) || of_tests.contains(path) { all } else { lines_for_tests(&source) };
        (src, tests) = (src + all - inside, tests + inside);
    }
    [src, tests]
}

/// The schemas whose names no source has. The tests of the crates write the others from their types.
fn schemas_without_type() -> Vec<String> {
    let sources: Vec<String> = product_sources().iter().map(|path| read(path)).collect();
    let mut schemas = files("docs/schemas", ".schema.json");
    assert!(schemas.len() > 20, "only {} schemas found", schemas.len());
    schemas.retain(|path| {
        let file = path.rsplit('/').next().unwrap_or_default();
        let name = format!("\"{}/", file.trim_end_matches(".schema.json"));
        !sources.iter().any(|source| source.contains(&name))
    });
    schemas
}

/// Each figure of `figures.toml` is an upper bound, which is lowered when the figure has fallen by 1 %.
#[test]
fn the_house_does_not_grow() {
    let [src, tests] = lines_of(&of_crates(".rs"));
    let lines = |paths: Vec<String>| paths.iter().map(|path| read(path).lines().count()).sum::<usize>();
    let mut by_hand = files("python/weftline", ".py");
    by_hand.retain(|path| !path.ends_with("/documents.py"));
    let found = [
        ("src", src),
        ("tests", tests),
        ("crates", crates().len()),
        ("ebpf", lines([files("bpf", ".c"), files("bpf", ".h")].concat())),
        ("schemas", lines(schemas_without_type())),
        ("python", lines(by_hand)),
    ];
    let bounds = table("tests/house/figures.toml");
    assert_eq!(bounds.len(), found.len(), "figures.toml has other figures");
    let wrong = found.iter().filter_map(|(name, found)| {
        println!("{name}: {found}");
        let bound =
            bounds.get(*name).and_then(|bound| bound.as_integer()).and_then(|b| usize::try_from(b).ok())?;
        let what = if *found > bound { "more than" } else { "below, by over 1 %, the" };
        (*found > bound || found * 101 / 100 < bound)
            .then(|| format!("{name} = {found}: {what} {bound} of figures.toml"))
    });
    assert_eq!(
        wrong.collect::<Vec<_>>(),
        Vec::<String>::new(),
        "take something away, or say why in the commit"
    );
}

#[test]
fn files_are_short() {
    let excepted = exceptions("long-files");
    let check =
        |path: &str, source: &str| sources::long_file(source).filter(|_| !excepted.contains_key(path));
    none("long files", each(&product_sources(), check));
}

#[test]
fn no_address_of_some_machine_is_in_the_code() {
    let excepted = exceptions("addresses");
    let check = |path: &str, source: &str| match excepted.contains_key(path) {
        true => Vec::new(),
        false => literals::addresses(source),
    };
    none("addresses", each(&product_sources(), check));
}

#[test]
fn nothing_is_marked_as_unfinished() {
    let texts = [
        all_sources(),
        files("bpf", ""),
        files("docs", ".md"),
        files("policies", ".weft"),
        files("scripts", ""),
        ["Makefile", "README.md", "CONTRIBUTING.md"].map(str::to_owned).to_vec(),
    ]
    .concat();
    none("unfinished", each(&texts, |_, text| sources::unfinished(text)));
}

#[test]
fn unsafe_code_is_listed_and_explained() {
    let listed = exceptions("unsafe");
    let check = |path: &str, source: &str| {
        let first = unsafe_code::uses(source).first().copied();
        let unlisted = first.filter(|_| !listed.contains_key(path));
        let unlisted =
            unlisted.map(|line| Finding::at(line, "`unsafe` in a file that exceptions.toml does not list"));
        unlisted.into_iter().chain(unsafe_code::unexplained(source)).collect::<Vec<_>>()
    };
    none("unsafe code", each(&all_sources(), check));
    for path in listed.keys() {
        assert!(
            !unsafe_code::uses(&read(path)).is_empty(),
            "exceptions.toml lists {path}, which has no `unsafe`"
        );
    }
}

#[test]
fn documents_name_files_that_exist() {
    let documents =
        [files("docs", ".md"), ["README.md", "CONTRIBUTING.md"].map(str::to_owned).to_vec()].concat();
    let check = |path: &str, text: &str| {
        let folder = root().join(Path::new(path).parent().unwrap_or(Path::new("")));
        let missing = mentions(text).into_iter().filter(|m| {
            let base = if m.relative { folder.clone() } else { root() };
            !base.join(&m.path).exists()
        });
        missing.map(|m| Finding::at(m.line, format!("{} does not exist", m.path))).collect::<Vec<_>>()
    };
    none("paths in documents", each(&documents, check));
}

#[test]
fn skipped_tests_are_counted() {
    let mut tests = all_sources();
    let product = product_sources();
    tests.retain(|path| {
        !product.contains(path) && !path.ends_with("/testing.rs") && !path.contains("/examples/")
    });
    assert!(tests.len() > 50, "only {} sources of tests found", tests.len());
    tests.retain(|path| path != "tests/house/src/skips.rs");
    none("skips", each(&tests, |_, source| skips::ad_hoc(source)));
}

/// Scripts build with the versions in `Cargo.lock`.
#[test]
fn cargo_is_locked_wherever_it_builds() {
    let files = [files("scripts", ""), files(".ci", ""), vec!["Makefile".to_owned()]].concat();
    let check = |_: &str, text: &str| {
        let builds = ["build", "check", "test", "clippy", "doc", "bench", "run", "deny", "install"];
        let says = |line: &str| ["die ", "say ", " --version"].iter().any(|word| line.contains(word));
        let comment = |line: &str| line.trim_start().starts_with('#');
        let lines = text.lines().enumerate().filter(|(_, line)| !comment(line) && !says(line));
        let found = lines.filter(|(_, line)| {
            let after = line.split("cargo ").skip(1).chain(line.split("$(CARGO) ").skip(1));
            after.map(str::trim_start).any(|rest| builds.iter().any(|verb| rest.starts_with(verb)))
                && !line.contains("--locked")
        });
        found.map(|(index, _)| Finding::at(index + 1, "cargo without --locked")).collect::<Vec<_>>()
    };
    none("--locked", each(&files, check));
}

#[test]
fn the_toolchain_file_agrees_with_the_manifest() {
    let file = table("rust-toolchain.toml");
    let toolchain = &file["toolchain"];
    // A fixed release would be downloaded even if a later one is installed.
    assert_eq!(toolchain["channel"].as_str(), Some("stable"));
    let components = toolchain["components"].as_array().expect("components");
    assert!(["rustfmt", "clippy"].iter().all(|name| components.iter().any(|c| c.as_str() == Some(name))));
}

/// `make audit` runs cargo-deny with these rules; this test only parses them.
#[test]
fn the_rules_for_dependencies_can_be_read() {
    let deny = table("deny.toml");
    let licences = deny["licenses"]["allow"].as_array().expect("licences");
    let own = table("Cargo.toml")["workspace"]["package"]["license"].as_str().expect("ours").to_owned();
    for licence in own.split(" OR ") {
        assert!(licences.iter().any(|l| l.as_str() == Some(licence)), "{licence}");
    }
    for (section, key) in [("sources", "unknown-registry"), ("sources", "unknown-git"), ("bans", "wildcards")]
    {
        assert_eq!(deny[section][key].as_str(), Some("deny"), "{section}.{key}");
    }
    assert_eq!(deny["advisories"]["yanked"].as_str(), Some("deny"));
}

/// The lints check the types of the targets that the manifest names.
#[test]
fn each_fuzz_target_is_in_the_manifest() {
    let manifest = table("fuzz/Cargo.toml");
    let programs = manifest["bin"].as_array().expect("programs");
    let named: BTreeSet<_> =
        programs.iter().filter_map(|program| program["path"].as_str()).map(str::to_owned).collect();
    let there = files("fuzz/fuzz_targets", ".rs");
    let there: BTreeSet<_> = there.iter().map(|path| path.trim_start_matches("fuzz/").to_owned()).collect();
    assert!(there.len() >= 18, "{there:?}");
    assert_eq!(named, there);
}
