//! Remarks by rules: each has figures as evidence and a command to try.

use weft_report::profile::{Advice, Category, ConfigReport, Side};

use crate::remedy::Remedy;

/// Share of copies from which they are worth a remark.
const COPY: f64 = 0.45;
/// Share of scheduling likewise.
const SCHED: f64 = 0.20;
/// Share of netdevice and skb management together, and the size of skbs in bytes below which merging helps.
const SMALL: (f64, f64) = (0.25, 8000.0);

/// A remark, and what a trial can do about it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Remark {
    pub(crate) advice: Advice,
    /// The change that a trial can make in its own namespaces.
    pub(crate) remedy: Option<Remedy>,
    /// The reason that it can make none.
    pub(crate) not_here: &'static str,
}

/// The remarks about a level, for the document.
pub(crate) fn of(config: &ConfigReport) -> Vec<Advice> {
    remarks(config).into_iter().map(|remark| remark.advice).collect()
}

/// The remarks about a level.
pub(crate) fn remarks(config: &ConfigReport) -> Vec<Remark> {
    let share = |side: Side, category: Category| {
        config.sides.get(&side).and_then(|s| s.cpu_share.get(&category)).copied().unwrap_or(0.0)
    };
    let remark = |evidence: String, command: &str, remedy: Option<Remedy>| Remark {
        advice: Advice { level: config.level.clone(), evidence, command: command.to_owned() },
        remedy,
        not_here: "it is a setting of the whole host, which a trial does not change",
    };
    let mut all = Vec::new();
    let copy = share(Side::Sender, Category::DataCopy);
    if copy > COPY {
        let evidence = format!("copies have {:.0} % of the sender's kernel time", copy * 100.0);
        all.push(remark(evidence, "MSG_ZEROCOPY in the sending application (send(2))", Some(Remedy::NoCopy)));
    }
    let small = share(Side::Receiver, Category::Netdev) + share(Side::Receiver, Category::Skb);
    let skb = config.skb_bytes.as_ref().and_then(|sizes| sizes.after_gro.mean);
    if small > SMALL.0 && skb.is_some_and(|bytes| bytes < SMALL.1) {
        let evidence = format!(
            "skbs have {:.0} bytes, netdevice and skb {:.0} % of the receiver's kernel time",
            skb.unwrap_or(0.0),
            small * 100.0
        );
        all.push(remark(evidence, "ethtool -K DEVICE gro on", Some(Remedy::Gro)));
    }
    let sched = share(Side::Receiver, Category::Sched);
    if sched > SCHED {
        let evidence = format!("scheduling has {:.0} % of the receiver's kernel time", sched * 100.0);
        all.push(remark(evidence, "sysctl net.core.busy_poll=50", None));
    }
    if config.retransmitted > 0 {
        let evidence = format!("{} segments were sent again", config.retransmitted);
        let command = "ip link set DEVICE txqueuelen 10000; tc -s qdisc show dev DEVICE";
        all.push(remark(evidence, command, Some(Remedy::LongQueue)));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_report::profile::{Run, SideTime};

    #[test]
    fn remarks_need_their_evidence() {
        let time =
            SideTime { system_s: 1.0, categories_s: [(Category::Sched, 1.0)].into(), ..Default::default() };
        let run = Run { span_s: 1.0, receiver: time, ..Run::default() };
        let remarks = of(&ConfigReport::conclude("noopt", 1, [1, 1], vec![run]));
        assert_eq!(remarks.len(), 1);
        assert!(remarks[0].evidence.contains("100 %") && remarks[0].command.contains("busy_poll"));
        assert!(of(&ConfigReport::conclude("noopt", 1, [1, 1], Vec::new())).is_empty());
    }
}
