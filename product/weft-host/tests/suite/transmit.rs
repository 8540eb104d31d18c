//! The facts of a device, from a recorded host's files and from a veth.

use std::fs;
use std::path::Path;
use weft_host::link::{self, VethOptions};
use weft_host::tc::EgressKinds;
use weft_host::transmit::{ByteLimits, Facts, FactsError, Interrupts, Tree, default_device};
use weft_host::{NetNs, testing};
use weft_units::{BitsPerSec, Bytes};

/// A recorded host: an ixgbe of two queues with separate interrupts, and a virtio device of one queue.
fn recorded() -> (tempfile::TempDir, Tree) {
    let folder = tempfile::tempdir().expect("folder");
    let tree = Tree { sys: folder.path().join("sys"), proc: folder.path().join("proc") };
    let bus = "sys/devices/pci0000:00/0000:01:00.0";
    for (path, text) in [
        ("sys/devices/system/cpu/online", "0-3\n"),
        ("sys/devices/system/node/online", "0\n"),
        ("sys/class/net/eth0/mtu", "9000\n"),
        ("sys/class/net/eth0/speed", "10000\n"),
        ("sys/class/net/eth0/statistics/tx_packets", "12\n"),
        ("sys/class/net/eth0/queues/rx-0/rps_cpus", "0\n"),
        ("sys/class/net/eth0/queues/rx-1/rps_cpus", "0\n"),
        ("sys/class/net/eth0/queues/tx-0/xps_cpus", "1\n"),
        ("sys/class/net/eth0/queues/tx-1/xps_cpus", "2\n"),
        ("sys/class/net/eth0/queues/tx-0/byte_queue_limits/limit", "30280\n"),
        ("sys/class/net/eth0/queues/tx-0/byte_queue_limits/limit_min", "0\n"),
        ("sys/class/net/eth0/queues/tx-0/byte_queue_limits/limit_max", "1879048192\n"),
        ("sys/class/net/eth0/queues/tx-1/byte_queue_limits/limit", "0\n"),
        ("sys/class/net/eth1/mtu", "1500\n"),
        ("sys/class/net/eth1/speed", "-1\n"),
        ("sys/class/net/eth1/queues/rx-0/rps_cpus", "0\n"),
        ("sys/class/net/eth1/queues/tx-0/traffic_class", "0\n"),
        ("proc/sys/net/ipv4/tcp_limit_output_bytes", "4194304\n"),
        ("proc/sys/net/ipv4/tcp_congestion_control", "cubic\n"),
        ("proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t4194304\n"),
        ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
        ("proc/irq/40/smp_affinity_list", "0\n"),
        ("proc/irq/41/smp_affinity_list", "1\n"),
        (
            "proc/net/route",
            "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n\
          eth1\t00000000\t0\t3\t0\t0\t100\t00000000\neth0\t00000000\t0\t3\t0\t0\t7\t00000000\n\
          eth0\t000200C0\t0\t1\t0\t0\t0\t00FFFFFF\n",
        ),
    ] {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folder");
        fs::write(path, text).expect("write");
    }
    for number in ["40", "41"] {
        let path = folder.path().join(bus).join("msi_irqs");
        fs::create_dir_all(&path).expect("folder");
        fs::write(path.join(number), "msix\n").expect("write");
    }
    let link = |to: &Path, at: &str| {
        std::os::unix::fs::symlink(to, folder.path().join(at)).expect("link");
    };
    let drivers = folder.path().join("sys/bus/pci/drivers/ixgbe");
    fs::create_dir_all(&drivers).expect("folder");
    link(&drivers, &format!("{bus}/driver"));
    link(&folder.path().join(bus), "sys/class/net/eth0/device");
    // The device of virtio is below that of the bus, which has the interrupts.
    let virtio = folder.path().join(bus).join("virtio0");
    fs::create_dir_all(&virtio).expect("folder");
    link(&virtio, "sys/class/net/eth1/device");
    (folder, tree)
}

#[test]
fn the_files_of_a_recorded_host_are_read() {
    let (_folder, tree) = recorded();
    let facts = Facts::from_files(&tree, "eth0").expect("facts");
    let expected = Facts {
        device: "eth0".to_owned(),
        driver: Some("ixgbe".to_owned()),
        mtu: Some(Bytes(9000)),
        rate: Some(BitsPerSec(10_000_000_000)),
        transmit_queues: Some(2),
        receive_queues: Some(2),
        byte_limits: Some(ByteLimits::Dynamic { limit: Bytes(30_280), most: Bytes(1_879_048_192) }),
        xps: Some(true),
        interrupts: Some(Interrupts { count: 2, pinned: true }),
        small_queue: Some(Bytes(4 << 20)),
        congestion_control: Some("cubic".to_owned()),
        send_buffer: Some(Bytes(4 << 20)),
        receive_buffer: Some(Bytes(6_291_456)),
        processors: Some(4),
        numa_nodes: Some(1),
        ..Facts::default()
    };
    assert_eq!(facts, expected);
    assert_eq!(default_device(&tree), Some("eth0".to_owned()));
}

#[test]
fn what_files_do_not_show_is_unknown() {
    let (folder, tree) = recorded();
    let facts = Facts::from_files(&tree, "eth1").expect("facts");
    assert_eq!((facts.driver, facts.rate), (None, None));
    assert_eq!((facts.byte_limits, facts.xps), (Some(ByteLimits::Off), Some(false)));
    assert_eq!(facts.interrupts.map(|interrupts| interrupts.count), Some(2), "those of the bus device");
    // A limit of zero says nothing before the first packet.
    let zero = |file: &str, number: &str| {
        fs::write(folder.path().join("sys/class/net/eth0").join(file), number).expect("write");
    };
    zero("queues/tx-0/byte_queue_limits/limit", "0\n");
    assert_eq!(Facts::from_files(&tree, "eth0").expect("facts").byte_limits, Some(ByteLimits::Off));
    zero("statistics/tx_packets", "0\n");
    assert_eq!(Facts::from_files(&tree, "eth0").expect("facts").byte_limits, None);
    zero("queues/tx-0/byte_queue_limits/limit_min", "1879048192\n");
    let fixed = Facts::from_files(&tree, "eth0").expect("facts").byte_limits;
    assert_eq!(fixed, Some(ByteLimits::Fixed(Bytes(1_879_048_192))));
    zero("queues/tx-0/xps_cpus", "nonsense\n");
    zero("queues/tx-1/xps_cpus", "0\n");
    assert_eq!(Facts::from_files(&tree, "eth0").expect("facts").xps, Some(false));
    let error = Facts::from_files(&tree, "eth9").expect_err("absent").to_string();
    assert_eq!(error, "there is no device eth9; there are: eth0, eth1");
    let none = Tree { sys: folder.path().join("none"), proc: folder.path().join("none") };
    assert!(Facts::from_files(&none, "eth0").is_err() && default_device(&none).is_none());
}

#[test]
fn a_veth_of_another_namespace_is_read() {
    if !testing::privileged("a_veth_of_another_namespace_is_read") {
        return;
    }
    let (a, b) = (NetNs::anonymous().expect("a"), NetNs::anonymous().expect("b"));
    let options = VethOptions { queues: Some(3), ..VethOptions::default() };
    link::create_veth((&a, "f0"), (&b, "f1"), &options).expect("veth");
    link::set_up(&a, "f0").expect("up");
    link::set_gso_max_size(&a, "f0", 30_000).expect("set");
    let facts = Facts::read(&a, "f0", &["pfifo_fast", "no_such"]).expect("facts");
    assert_eq!((facts.driver.as_deref(), facts.kind.as_deref()), (Some("veth"), Some("veth")));
    assert_eq!((facts.transmit_queues, facts.rate), (Some(3), None), "a veth has no wire: {facts:?}");
    assert_eq!(facts.segments.map(|segments| segments.size), Some(Bytes(30_000)));
    assert_eq!(facts.qdiscs.as_ref().and_then(EgressKinds::each), Some("noqueue"));
    assert_eq!(facts.queue_weights, Some(false));
    assert_eq!(facts.kernel_qdiscs["pfifo_fast"], Some(true));
    assert_ne!(facts.kernel_qdiscs["no_such"], Some(true));
    assert!(matches!(Facts::read(&a, "f1", &[]), Err(FactsError::NoDevice { .. })));
    assert!(matches!(Facts::read(&a, "../f0", &[]), Err(FactsError::Name(_))));
}
