//! `link auto` and `latency TIME of CLASS`, and names that are these words.

use crate::common::{check, compiled};
use expect_test::expect;
use weft_units::{BitsPerSec, Nanos};

#[test]
fn a_class_may_ask_for_a_latency_and_a_link_for_its_own_rate() {
    let policy = compiled(
        "link auto\nlatency 200us of a\nlatency 1ms of b\nclass a = tcp\nclass b = udp\nroot = priority { a, b }",
    );
    let policy = policy.policy.expect("policy");
    assert_eq!(policy.link, None);
    assert_eq!(policy.least_latency(), Some(Nanos::from_micros(200)));
    let latencies: Vec<_> = policy.classes.iter().map(|class| class.latency).collect();
    assert_eq!(latencies, [Some(Nanos::from_micros(200)), Some(Nanos::from_millis(1)), None]);
    assert!(weft_policy::describe(&policy).contains("latency of a"), "the description has it");
}

#[test]
fn both_words_may_be_names() {
    let policy =
        compiled("link 1gbps\nclass latency = tcp\nclass auto = udp\nroot = wfq { latency: 2, auto: 1 }");
    let policy = policy.policy.expect("policy");
    assert_eq!((policy.link, policy.least_latency()), (Some(BitsPerSec(1_000_000_000)), None));
}

#[test]
fn what_is_wrong_is_said() {
    check(
        "latency 0ms of a\nclass a = tcp\nroot = a",
        &expect![[r#"
        p:1:9: error[E0115]: `0ms` is not a time above zero
          help: such as 200us or 1ms
    "#]],
    );
    check(
        "latency 2parsecs of a\nclass a = tcp\nroot = a",
        &expect![[r#"
        p:1:9: error[E0115]: `2parsecs` is not a time above zero
          help: such as 200us or 1ms
    "#]],
    );
    check(
        "latency 200us\nclass a = tcp\nroot = a",
        &expect![[r#"
            p:1:14: error[E0001]: expected `of`, found the end of the line
              help: such as `latency 200us of voice`
        "#]],
    );
    check(
        "latency 200us of root\nclass a = tcp\nroot = a",
        &expect![[r#"
        p:1:18: error[E0212]: `root` is not a class
          help: latencies hold for classes; give one to each class below it
    "#]],
    );
    check(
        "latency 200us of a\nlatency 1ms of a\nclass a = tcp\nroot = a",
        &expect![[r#"
        p:2:16: error[E0208]: the latency of `a` is stated twice
          help: leave one of the lines out
    "#]],
    );
    check(
        "link auto\nlink 1gbps\nroot = default",
        &expect![[r#"
        p:2:6: error[E0208]: the link's rate is stated twice
          help: leave one of the lines out
    "#]],
    );
}
