//! The answers of the laboratory's commands to wrong usage, and their help.

use crate::common::{Said, program, run};
use std::process::Command;

#[test]
fn wrong_usage_has_exit_code_2_and_names_what_is_wrong() {
    for (args, named) in [
        (&["demo", "--rate", "0mbps"][..], "a rate of zero sends nothing"),
        (&["demo", "--rate", "500"], "500mbps"),
        (&["demo", "--duration", "0"], "longer than zero"),
        (&["demo", "--modes", "sq,fast"], "fast"),
        (&["demo", "--figure", "12"], "12"),
        (&["demo", "--flows", "1,2"], "T1, T2, T3 and T4"),
        (&["demo", "--limit", "1mbps"], "--figure 11"),
        (&["demo", "--segments-per-turn", "0"], "whole"),
    ] {
        let said = run(args);
        assert_eq!(said.code, 2, "{args:?}: {}", said.err);
        assert!(said.err.contains(named) && said.out.is_empty(), "{args:?}: {}", said.err);
    }
}

#[test]
fn a_missing_program_is_named_with_its_package() {
    if !weft_host::testing::privileged("a_missing_program_is_named_with_its_package") {
        return;
    }
    // Runs in its own mount namespace, where the file is hidden.
    if !weft_host::testing::has_program("a_missing_program_is_named_with_its_package", "iperf3") {
        return;
    }
    let iperf3 = weft_host::programs::find("iperf3").expect("it is there");
    let script = "mount --bind /dev/null \"$0\" && exec \"$@\"";
    let said: Said = Command::new("unshare")
        .args(["--mount", "sh", "-c", script])
        .arg(iperf3)
        .arg(program())
        .args(["demo", "--no-html"])
        .output()
        .expect("run")
        .into();
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains("iperf3") && said.err.contains("apt-get install iperf3"), "{}", said.err);
}

#[test]
fn an_unwritable_document_is_told_before_the_work() {
    let said = run(&["demo", "--no-html", "--json", "/no/such/folder/x.json"]);
    assert_eq!(said.code, 1);
    assert!(said.err.contains("/no/such/folder/x.json: No such file"), "{}", said.err);
    let said = run(&["bench", "engine", "--json", "/no/such/folder/x.json"]);
    assert!(said.code == 1 && said.err.contains("/no/such/folder"), "{}", said.err);
}

#[test]
fn every_command_has_help_with_an_example_under_the_name_that_was_asked() {
    for command in ["demo", "sim", "campaign", "reproduce", "bench", "profile", "tune"] {
        let said = run(&[command, "--help"]);
        assert_eq!(said.code, 0, "{}", said.err);
        assert!(said.out.contains(&format!("\n  weft {command}")), "{command}: {}", said.out);
        assert!(said.out.contains(&format!("Usage: weft {command}")), "{command}: {}", said.out);
    }
    let own = Command::new(crate::PROGRAM).args(["sim", "--help"]).output().map(Said::from).expect("run");
    assert!(own.code == 0 && own.out.contains("Usage: weft-lab sim"), "{}", own.out);
}

/// Without the laboratory beside it or in PATH, the product says what is missing.
#[test]
fn a_product_without_its_laboratory_says_so() {
    let folder = tempfile::tempdir().expect("folder");
    let alone = folder.path().join("weft");
    std::fs::copy(program(), &alone).expect("copy");
    let said: Said =
        Command::new(&alone).args(["sim", "x.toml"]).env("PATH", folder.path()).output().expect("run").into();
    assert_eq!((said.code, said.out.as_str()), (1, ""), "{}", said.err);
    assert!(
        said.err.contains("weft sim") && said.err.contains("weft-lab") && said.err.contains("install"),
        "{}",
        said.err
    );
    assert_eq!(said.err.lines().count(), 1, "{}", said.err);
    let helped: Said =
        Command::new(&alone).arg("--help").env("PATH", folder.path()).output().expect("run").into();
    assert!(helped.code == 0 && helped.out.contains("weft-lab"), "{}", helped.out);
}
