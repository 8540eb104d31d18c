//! Diagnostics of invalid values: rates, weights, prefixes, ports, marks, paths, sizes.

use crate::common::check;
use expect_test::expect;

#[test]
fn rates() {
    check(
        r#"link 40
root = default"#,
        &expect![[r#"
            p:1:6: error[E0101]: `40` is not a rate
              help: such as 500mbps or 2.5gbps: bits per second
        "#]],
    );
    check(
        r#"link 0gbps
root = default"#,
        &expect![[r#"
            p:1:6: error[E0102]: a rate of zero would hold its packets forever
              help: set a rate above zero
        "#]],
    );
    check(
        r#"link 1..5gbps
root = default"#,
        &expect![[r#"
            p:1:6: error[E0101]: `1..5gbps` is not a rate
              help: such as 500mbps or 2.5gbps: bits per second
        "#]],
    );
    check(
        r#"root = limit -1mbps of default"#,
        &expect![[r#"
        p:1:14: error[E0101]: `-1mbps` is not a rate
          help: such as 500mbps or 2.5gbps: bits per second
    "#]],
    );
    check(
        r#"root = limit 0bps of default"#,
        &expect![[r#"
            p:1:14: error[E0102]: a rate of zero would hold its packets forever
              help: set a rate above zero
        "#]],
    );
    check(
        r#"root = limit 99999999999999tbps of default"#,
        &expect![[r#"
        p:1:14: error[E0101]: `99999999999999tbps` is not a rate
          help: such as 500mbps or 2.5gbps: bits per second
    "#]],
    );
}

#[test]
fn weights() {
    check(
        r#"root = wfq { default: 0 }"#,
        &expect![[r#"
        p:1:23: error[E0103]: `0` is not a weight
          help: weights are whole numbers from 1 to 4294967295; only their proportions count
    "#]],
    );
    check(
        r#"root = wfq { default: 1.5 }"#,
        &expect![[r#"
        p:1:23: error[E0103]: `1.5` is not a weight
          help: weights are whole numbers from 1 to 4294967295; only their proportions count
    "#]],
    );
    check(
        r#"root = wfq { default: 4294967296 }"#,
        &expect![[r#"
        p:1:23: error[E0103]: `4294967296` is not a weight
          help: weights are whole numbers from 1 to 4294967295; only their proportions count
    "#]],
    );
    check(
        r#"root = wfq { default: +1 }"#,
        &expect![[r#"
            p:1:23: error[E0002]: the character `+` has no meaning here
              help: numbers have no sign
        "#]],
    );
}

#[test]
fn prefixes() {
    check(
        r#"class a = to 10.0.0
root = a"#,
        &expect![[r#"
            p:1:14: error[E0104]: `10.0.0` is not an address prefix
              help: such as 10.0.1.0/24, fd00::/8, or a lone address
        "#]],
    );
    check(
        r#"class a = to 10.0.0.1/24
root = a"#,
        &expect![[r#"
            p:1:14: error[E0105]: `10.0.0.1/24` has bits set beyond its length: write `10.0.0.0/24`
              help: the network is written 10.0.0.0/24
        "#]],
    );
    check(
        r#"class a = from fd00::1/64
root = a"#,
        &expect![[r#"
            p:1:16: error[E0105]: `fd00::1/64` has bits set beyond its length: write `fd00::/64`
              help: the network is written fd00::/64
        "#]],
    );
    check(
        r#"class a = to 10.0.0.0/33
root = a"#,
        &expect![[r#"
            p:1:14: error[E0104]: `10.0.0.0/33` is not an address prefix
              help: such as 10.0.1.0/24, fd00::/8, or a lone address
        "#]],
    );
    check(
        r#"class a = to ::/129
root = a"#,
        &expect![[r#"
            p:1:14: error[E0104]: `::/129` is not an address prefix
              help: such as 10.0.1.0/24, fd00::/8, or a lone address
        "#]],
    );
    check(
        r#"class a = to example.org
root = a"#,
        &expect![[r#"
            p:1:14: error[E0104]: `example.org` is not an address prefix
              help: such as 10.0.1.0/24, fd00::/8, or a lone address
        "#]],
    );
    check(
        r#"root = limit by destination { 10.0.0.0/8 2gbps } of default"#,
        &expect![[r#"
            p:1:42: error[E0001]: expected `:` before the rate, found `2gbps`
              help: a value follows its name after a colon
        "#]],
    );
    check(
        r#"root = limit by destination { fd00::1:1gbps } of default"#,
        &expect![[r#"
            p:1:31: error[E0104]: a space is missing between an IPv6 address and its rate: write `fd00::1: 1gbps`
              help: a colon without a space behind it is part of the address
        "#]],
    );
}

#[test]
fn ports() {
    check(
        r#"class a = port 0
root = a"#,
        &expect![[r#"
            p:1:16: error[E0106]: `0` is not a port or a range of ports
              help: ports are numbers from 1 to 65535, a range is written 80..443; packets without ports carry 0
        "#]],
    );
    check(
        r#"class a = dport 65536
root = a"#,
        &expect![[r#"
            p:1:17: error[E0106]: `65536` is not a port or a range of ports
              help: ports are numbers from 1 to 65535, a range is written 80..443; packets without ports carry 0
        "#]],
    );
    check(
        r#"class a = sport 443..80
root = a"#,
        &expect![[r#"
            p:1:17: error[E0107]: the range `443..80` ends before it begins: write `80..443`
              help: a range begins with its lower port
        "#]],
    );
    check(
        r#"class a = sport 80-443
root = a"#,
        &expect![[r#"
            p:1:17: error[E0106]: `80-443` is not a port or a range of ports: write `80..443`
              help: ports are numbers from 1 to 65535, a range is written 80..443; packets without ports carry 0
        "#]],
    );
    check(
        r#"class a = port http
root = a"#,
        &expect![[r#"
            p:1:16: error[E0106]: `http` is not a port or a range of ports: write `80`
              help: ports are numbers from 1 to 65535, a range is written 80..443; packets without ports carry 0
        "#]],
    );
    check(
        r#"class a = dport 1...3
root = a"#,
        &expect![[r#"
            p:1:17: error[E0106]: `1...3` is not a port or a range of ports: write `1..3`
              help: ports are numbers from 1 to 65535, a range is written 80..443; packets without ports carry 0
        "#]],
    );
}

#[test]
fn protocols_marks_and_priorities() {
    check(
        r#"class a = protocol 256
root = a"#,
        &expect![[r#"
            p:1:20: error[E0108]: `256` is not a protocol number
              help: protocol numbers run from 0 to 255
        "#]],
    );
    check(
        r#"class a = mark 0x10/0x01
root = a"#,
        &expect![[r#"
            p:1:16: error[E0110]: the mark `0x10/0x01` has bits outside its mask: no packet can match: write `0x0/0x1`
              help: a packet's mark is compared under the mask
        "#]],
    );
    check(
        r#"class a = mark -1
root = a"#,
        &expect![[r#"
            p:1:16: error[E0109]: `-1` is not a mark
              help: a mark is a 32-bit number with or without a mask, such as 5 or 0x10/0xff
        "#]],
    );
    check(
        r#"class a = mark 0xfffffffff
root = a"#,
        &expect![[r#"
            p:1:16: error[E0109]: `0xfffffffff` is not a mark
              help: a mark is a 32-bit number with or without a mask, such as 5 or 0x10/0xff
        "#]],
    );
    check(
        r#"class a = mark 1/2/3
root = a"#,
        &expect![[r#"
            p:1:16: error[E0109]: `1/2/3` is not a mark
              help: a mark is a 32-bit number with or without a mask, such as 5 or 0x10/0xff
        "#]],
    );
    check(
        r#"class a = priority high
root = a"#,
        &expect![[r#"
            p:1:20: error[E0111]: `high` is not a packet priority
              help: a priority is a number from 0 to 4294967295, or 0x...
        "#]],
    );
}

#[test]
fn cgroups() {
    check(
        r#"class a = cgroup ""
root = a"#,
        &expect![[r#"
            p:1:18: error[E0112]: `` is not the path of a cgroup
              help: such as "/system.slice/mgmt" below the root of the hierarchy, or "T1" below the run's own cgroup
        "#]],
    );
    check(
        r#"class a = cgroup "/a//b"
root = a"#,
        &expect![[r#"
            p:1:18: error[E0112]: `/a//b` is not the path of a cgroup: write `"/a/b"`
              help: such as "/system.slice/mgmt" below the root of the hierarchy, or "T1" below the run's own cgroup
        "#]],
    );
    check(
        r#"class a = cgroup "a/../b"
root = a"#,
        &expect![[r#"
            p:1:18: error[E0112]: `a/../b` is not the path of a cgroup
              help: such as "/system.slice/mgmt" below the root of the hierarchy, or "T1" below the run's own cgroup
        "#]],
    );
    check(
        r#"class a = cgroup "a/"
root = a"#,
        &expect![[r#"
            p:1:18: error[E0112]: `a/` is not the path of a cgroup: write `"a"`
              help: such as "/system.slice/mgmt" below the root of the hierarchy, or "T1" below the run's own cgroup
        "#]],
    );
}

#[test]
fn names_of_ports() {
    check(
        r#"class a = port ""
root = a"#,
        &expect![[r#"
            p:1:16: error[E0116]: `` is not the name of a port
              help: such as port "vm1": at most 63 bytes without spaces; a port of a five-tuple is a number, such as port 443
        "#]],
    );
    check(
        r#"class a = tcp port "vm 1"
root = a"#,
        &expect![[r#"
            p:1:20: error[E0116]: `vm 1` is not the name of a port
              help: such as port "vm1": at most 63 bytes without spaces; a port of a five-tuple is a number, such as port 443
        "#]],
    );
    check(
        r#"class a = sport "vm1"
root = a"#,
        &expect![[r#"
            p:1:17: error[E0001]: expected a port, found `"vm1"`
              help: such as `dport 443` or `port 8000..8080`
        "#]],
    );
    check(
        r#"class a = port vm1
root = a"#,
        &expect![[r#"
            p:1:16: error[E0106]: `vm1` is not a port or a range of ports
              help: ports are numbers from 1 to 65535, a range is written 80..443; packets without ports carry 0
        "#]],
    );
}

#[test]
fn sizes_and_bounds() {
    check(
        r#"root = limit 1gbps burst big of default"#,
        &expect![[r#"
        p:1:26: error[E0113]: `big` is not a size
          help: such as 1500, 64kib or 1mb: bytes
    "#]],
    );
    check(
        r#"root = limit 1gbps burst 1kb burst 2kb of default"#,
        &expect![[r#"
        p:1:30: error[E0208]: the burst is stated twice
          help: leave one of them out
    "#]],
    );
    check(
        r#"bound 0 packets
root = default"#,
        &expect![[r#"
            p:1:7: error[E0114]: `0` is not a number of packets
              help: a bound is a whole number from 1 to 4294967295
        "#]],
    );
    check(
        r#"bound 1.5 packets
root = default"#,
        &expect![[r#"
            p:1:7: error[E0114]: `1.5` is not a number of packets
              help: a bound is a whole number from 1 to 4294967295
        "#]],
    );
    check(
        r#"root = limit 1gbps to 10.0.0.1 to 10.0.0.2 of default"#,
        &expect![[r#"
        p:1:32: error[E0208]: the limit has two destinations
          help: write a limit for each destination, or `limit by destination { ... }`
    "#]],
    );
}

#[test]
fn attributes() {
    check(
        r#"class a = vlan 4096 or pcp 8 or dscp 64 or dscp EF or ecn 4
class b = classid 0:0 or cookie 0 or user 4294967295 or user alice
class c = user "alice"
root = priority { a, b, c }"#,
        &expect![[r#"
            p:1:16: error[E0117]: `4096` is not a VLAN
              help: such as `vlan 100`: from 0 to 4095, of the outermost tag
            p:1:28: error[E0117]: `8` is not a priority code point
              help: such as `pcp 5`: from 0 to 7, of the outermost VLAN tag
            p:1:38: error[E0117]: `64` is not a DSCP
              help: such as `dscp ef`, `dscp af41`, `dscp cs1` or `dscp 46`: from 0 to 63
            p:1:49: error[E0117]: `EF` is not a DSCP: write `ef`
              help: such as `dscp ef`, `dscp af41`, `dscp cs1` or `dscp 46`: from 0 to 63
            p:1:59: error[E0117]: `4` is not an ECN code point
              help: one of not-ect, ect0, ect1 and ce
            p:2:19: error[E0117]: `0:0` is not a class of net_cls
              help: such as `classid 10:1` (hexadecimal, as tc writes classes) or `classid 0x100001`
            p:2:33: error[E0117]: `0` is not the cookie of a socket
              help: such as `cookie 0x1f`, from `ss --extended` (the number behind `sk:`) or SO_COOKIE
            p:2:43: error[E0117]: `4294967295` is not a user
              help: such as `user "alice"` or `user 1000`
            p:2:62: error[E0117]: `alice` is not a user: write `"alice"`
              help: such as `user "alice"` or `user 1000`
            p:3:16: error[E0118]: the host has no user `alice` in /etc/passwd
              help: write the user's number, from `id -u NAME`: users of a directory service are not in that file
        "#]],
    );
}

#[test]
fn a_process_is_tested_by_its_name_alone() {
    check(
        r#"class a = tcp and exe "/usr/sbin/nginx"
class b = pid 17
root = priority { a, b }"#,
        &expect![[r#"
            p:1:19: error[E0119]: a packet does not say the `exe` of its sender
              help: test the name of the process that made the socket, such as `process "nginx"`; or start the program in a cgroup of its own, such as by `systemd-run --scope --unit=NAME COMMAND`, and test `cgroup "/system.slice/NAME.scope"`
            p:2:11: error[E0119]: a packet does not say the `pid` of its sender
              help: test the name of the process that made the socket, such as `process "nginx"`; or start the program in a cgroup of its own, such as by `systemd-run --scope --unit=NAME COMMAND`, and test `cgroup "/system.slice/NAME.scope"`
        "#]],
    );
}

#[test]
fn names_of_processes() {
    check(
        r#"class a = process ""
class b = process "prometheus-node-exporter" or process "fifteen letters"
class c = process "größere Mengen"
class d = process "eineSehrGrößere"
root = priority { a, b, c, d }"#,
        &expect![[r#"
            p:1:19: error[E0120]: `` is not the name of a process
              help: such as `process "nginx"`: at most 15 bytes, as `ps -e -o comm` shows it
            p:2:19: error[E0120]: `prometheus-node-exporter` is not the name of a process: write `"prometheus-node"`
              help: such as `process "nginx"`: at most 15 bytes, as `ps -e -o comm` shows it
            p:3:19: error[E0120]: `größere Mengen` is not the name of a process: write `"größere Menge"`
              help: such as `process "nginx"`: at most 15 bytes, as `ps -e -o comm` shows it
            p:4:19: error[E0120]: `eineSehrGrößere` is not the name of a process: write `"eineSehrGröße"`
              help: such as `process "nginx"`: at most 15 bytes, as `ps -e -o comm` shows it
        "#]],
    );
    check(
        r#"class a = tcp and process nginx
class b = process
root = priority { a, b }"#,
        &expect![[r#"
            p:1:27: error[E0001]: expected a name in quotes, found `nginx`
              help: such as `process "nginx"`: at most 15 bytes, as `ps -e -o comm` shows it
            p:2:18: error[E0001]: expected a name in quotes, found the end of the line
              help: such as `process "nginx"`: at most 15 bytes, as `ps -e -o comm` shows it
        "#]],
    );
}
