//! Tests of attributes: VLAN, PCP, DSCP, ECN, user, net_cls class, cookie, process.

use crate::common::compiled;
use weft_policy::export::to_tc;
use weft_policy::{CompileOptions, CompiledPolicy, Source, Users, compile, describe, explain, reformat};

fn policy(text: &str) -> CompiledPolicy {
    let compiled = compiled(text);
    compiled.policy.unwrap_or_else(|| panic!("{text}: {:?}", compiled.diagnostics))
}

#[test]
fn their_words_may_be_names() {
    let text = "algorithm cookie(weight = 1) {\n    child f: vtime\n    rank = f\n    sent { f = rank + bytes / weight }\n}\n\n\
                class vlan = tcp\nclass user = user 1000 or vlan 5\nclass dscp = dscp ef\nclass ecn = udp\nclass process = process \"process\"\n\
                pcp = priority { user, dscp, process }\nclassid = cookie { vlan: 1, ecn: weight 2 }\nx = cookie of default\n\
                root = priority { pcp, classid, x }";
    assert_eq!(policy(text).classes.len(), 6, "with `default`");
}

#[test]
fn a_name_of_a_user_is_the_hosts() {
    let text = "class a = user \"alice\"\nclass b = user 7\nroot = fifo { a, b }";
    let users = Users::from_passwd("root:x:0:0::/:/\nalice:x:1000:1000::/:/\n");
    let options = CompileOptions { users, ..CompileOptions::default() };
    let policy = compile(Source { name: "p", text }, &options).policy.expect("compiles");
    assert!(describe(&policy).contains("user 1000 -> a"), "{}", describe(&policy));
    // The same class by number: the name is not part of the compiled form.
    let by_number = text.replace("\"alice\"", "1000");
    assert_eq!(Some(policy), compile(Source { name: "p", text: &by_number }, &options).policy);
}

#[test]
fn the_standard_form_is_the_same_again() {
    let text = "class a=vlan 7 and pcp 5 and not(dscp 46 or ecn ce)   # voice\nclass bb = user \"alice\" or classid 10:1 or cookie 0x1f or process \"tmux: server\"\nroot = fifo { a, bb }\n";
    let form = |text: &str| reformat(Source { name: "p", text }).expect("well formed");
    let once = form(text);
    assert_eq!(form(&once), once);
    let classes = "class a  = vlan 7 and pcp 5 and not (dscp 46 or ecn ce)  # voice\nclass bb = user \"alice\" or classid 10:1 or cookie 0x1f or process \"tmux: server\"\n";
    assert!(once.starts_with(classes), "{once}");
}

#[test]
fn a_packet_is_explained_by_its_attributes() {
    let text = "class voice = dscp ef and vlan 7\nclass alice = user 1000\nclass app = cookie 0x1f\nclass old = classid 10:1\nclass web = process \"nginx\" or process \"nginx: worker\"\nroot = fifo { voice, alice, app, old, web }";
    let policy = policy(text);
    for (packet, class) in [
        ("udp 10.0.0.1:1 > 10.0.0.2:2 dscp 46 vlan 7 user 1000", "voice"),
        ("udp [fd00::1]:1 > [fd00::2]:2 dscp ef pcp 3 user 1000", "alice"),
        ("non-ip vlan 7 cookie 31", "app"),
        ("non-ip classid 0x100001", "old"),
        ("tcp 10.0.0.1:1 > 10.0.0.2:2 process nginx", "web"),
        ("non-ip vlan 7 process \"nginx: worker\"", "web"),
        ("non-ip vlan 7 user 0 process nginx2", "default"),
    ] {
        let packet = packet.parse().expect(packet);
        let explanation = explain(Source { name: "p", text }, &policy, &packet).to_string();
        assert!(explanation.contains(&format!("class      {class}")), "{explanation}");
    }
}

#[test]
fn htb_keeps_the_traffic_class_and_says_what_it_loses() {
    let policy = policy(
        "link 1gbps\nclass a = dscp ef\nclass b = tcp and ecn ce\nclass c = vlan 7\nclass d = user 1000\nclass e = classid 10:1\nclass f = cookie 5\nclass g = process \"nginx\"\n\
         root = priority { a, b, c, d, e, f, g }",
    );
    let commands = to_tc(&policy, "eth0").expect("exported");
    for (text, count) in [
        ("match ip dsfield 0xb8 0xfc", 1),
        ("match ip6 priority 0xb8 0xfc", 1),
        ("match ip protocol 6 0xff match ip dsfield 0x3 0x3", 1),
        ("u32 sees no VLAN tags", 1),
        ("u32 sees no users", 1),
        ("u32 sees no classes of net_cls", 1),
        ("u32 sees no cookies of sockets", 1),
        ("u32 sees no processes", 1),
    ] {
        assert_eq!(commands.matches(text).count(), count, "{text} in {commands}");
    }
}
