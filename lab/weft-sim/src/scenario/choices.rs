//! Kinds of values that are one of several alternatives, some with their own keys.

use super::config::{
    ByteQueueLimit, DoorbellWrites, FlowTraffic, QdiscKind, ReceiveSteering, SchedulerKind, Topology,
};
use super::keys::{Context, Key, Kind, apply, inline, keys};
use super::kinds::{Count, Flag, Rate, Size, Time};
use weft_text::ParseError;
use weft_text::toml::TomlItem;
use weft_units::{BitsPerSec, Bytes, Nanos};

/// The default quantum of `sch_drr` and `sch_sfq`: `psched_mtu`, a full Ethernet frame without its check sequence.
const QUANTUM: Bytes = Bytes(1514);
/// Number of traffic classes of IEEE 802.1Qaz.
const DCB_CLASSES: u32 = 8;
/// A page of memory: the smallest request of the SIGCOMM'21 study's short flows.
const REQUEST: Bytes = Bytes(4096);
/// The payload of a UDP datagram that fills an Ethernet frame: 1500 less 20 of IPv4 and 8 of UDP.
const DATAGRAM: Bytes = Bytes(1472);

/// Declares a struct with the parameters of a choice.
macro_rules! parameters {
    ($(#[$doc:meta])* $name:ident, $table:ident { $($field:ident: $type:ty = $default:expr, $kind:ty;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(super) struct $name { $($field: $type,)* }
        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }
        keys! {
            /// The keys of the choice.
            $table of $name { $($field: $kind,)* }
        }
    };
}

parameters!(Dumbbell, DUMBBELL { left: u32 = 0, Count<u32, 1, 0xffff_ffff>; });
parameters!(LeafSpine, LEAF_SPINE {
    leaves: u32 = 2, Count<u32, 1, 10_000>;
    spines: u32 = 2, Count<u32, 1, 10_000>;
});
parameters!(Drr, DRR { quantum: Bytes = QUANTUM, Size<1>; });
parameters!(Htb, HTB { rate: BitsPerSec = BitsPerSec::ZERO, Rate; });
parameters!(Tbf, TBF { rate: BitsPerSec = BitsPerSec::ZERO, Rate; burst: Bytes = Bytes::ZERO, Size<1>; });
parameters!(Dcb, DCB { classes: u32 = DCB_CLASSES, Count<u32, 1, 255>; strict: bool = false, Flag; });
parameters!(Requests, REQUESTS {
    request: Bytes = REQUEST, Size<1>;
    response: Bytes = REQUEST, Size<1>;
    outstanding: u32 = 1, Count<u32, 1, 1_000_000>;
    think: Nanos = Nanos::ZERO, Time<0>;
});
parameters!(Short, SHORT { size: Bytes = Bytes::ZERO, Size<1>; interval: Nanos = Nanos::ZERO, Time<1>; });
parameters!(Udp, UDP {
    // The length field counts 8 bytes of UDP header, and IPv4's another 20 (RFC 768, RFC 791).
    size: Bytes = DATAGRAM, Size<1, 65_507>;
    rate: BitsPerSec = BitsPerSec::ZERO, Rate;
    poisson: bool = false, Flag;
});

/// Keys of choices without a default, by their table.
pub(super) const REQUIRED: [(&str, &str); 7] = [
    ("dumbbell", "left"),
    ("htb", "rate"),
    ("tbf", "rate"),
    ("tbf", "burst"),
    ("short", "size"),
    ("short", "interval"),
    ("udp", "rate"),
];

/// Reads the parameters of a choice: its keys, or nothing if every key has a default.
fn own<T: Default>(
    item: &TomlItem<'_>,
    word: &str,
    inner: Option<TomlItem<'_>>,
    keys: &[Key<T>],
    context: Context<'_>,
) -> Result<T, ParseError> {
    let missing = |key: &str| {
        let known: Vec<&str> = keys.iter().map(|key| key.name).collect();
        item.error(
            format!("`{word}` needs `{key}`"),
            format!(
                "write `{} = {{ {word} = {{ {key} = ... }} }}`; its keys: {}",
                item.key,
                known.join(", ")
            ),
        )
    };
    let required = REQUIRED.iter().filter(|(table, _)| *table == word).map(|(_, key)| *key);
    let mut value = T::default();
    let Some(inner) = inner else {
        return required.into_iter().next().map_or(Ok(value), |key| Err(missing(key)));
    };
    let table = inner.table(inner.key)?;
    apply(&table, keys, &[], &mut value, context)?;
    match required.into_iter().find(|key| table.get(key).is_none()) {
        Some(key) => Err(missing(key)),
        None => Ok(value),
    }
}

/// Refuses keys of a choice that has none.
fn alone(word: &str, inner: Option<TomlItem<'_>>) -> Result<(), ParseError> {
    inner.map_or(Ok(()), |inner| {
        Err(inner.error(format!("`{word}` has no keys"), format!("write \"{word}\"")))
    })
}

/// Formats `{ word = { keys } }`.
fn with<T>(word: &str, keys: &[Key<T>], value: &T, context: Context<'_>) -> String {
    let word = if word.contains('+') { format!("\"{word}\"") } else { word.to_owned() };
    format!("{{ {word} = {} }}", inline(keys, value, context))
}

/// The shape of the network.
pub(super) struct Shape;

impl Kind for Shape {
    type Value = Topology;

    fn read(item: &TomlItem<'_>, context: Context<'_>) -> Result<Topology, ParseError> {
        const WORDS: &[&str] = &["back-to-back", "star", "dumbbell", "leaf-spine"];
        let (word, inner) = item.choice(WORDS, "\"star\" or { dumbbell = { left = 4 } }")?;
        Ok(match word {
            "dumbbell" => Topology::Dumbbell { left: own(item, word, inner, DUMBBELL, context)?.left },
            "leaf-spine" => {
                let LeafSpine { leaves, spines } = own(item, word, inner, LEAF_SPINE, context)?;
                Topology::LeafSpine { leaves, spines }
            }
            _ => {
                alone(word, inner)?;
                if word == "star" { Topology::Star } else { Topology::BackToBack }
            }
        })
    }

    fn write(value: &Topology, context: Context<'_>) -> String {
        match *value {
            Topology::BackToBack => "\"back-to-back\"".to_owned(),
            Topology::Star => "\"star\"".to_owned(),
            Topology::Dumbbell { left } => with("dumbbell", DUMBBELL, &Dumbbell { left }, context),
            Topology::LeafSpine { leaves, spines } => {
                with("leaf-spine", LEAF_SPINE, &LeafSpine { leaves, spines }, context)
            }
        }
    }
}

/// The queueing discipline.
pub(super) struct Qdisc;

impl Kind for Qdisc {
    type Value = QdiscKind;

    fn read(item: &TomlItem<'_>, context: Context<'_>) -> Result<QdiscKind, ParseError> {
        let (word, inner) =
            item.choice(QdiscKind::NAMES, "\"fq_codel\" or { htb = { rate = \"10gbps\" } }")?;
        Ok(match word {
            "prio+sfq" => QdiscKind::PrioSfq { quantum: own(item, word, inner, DRR, context)?.quantum },
            "drr+prio+sfq" => {
                QdiscKind::DrrPrioSfq { quantum: own(item, word, inner, DRR, context)?.quantum }
            }
            "htb" => QdiscKind::Htb { rate: own(item, word, inner, HTB, context)?.rate },
            "tbf" => {
                let Tbf { rate, burst } = own(item, word, inner, TBF, context)?;
                QdiscKind::Tbf { rate, burst }
            }
            "fq_codel" => alone(word, inner).map(|()| QdiscKind::FqCodel)?,
            _ => alone(word, inner).map(|()| QdiscKind::PfifoFast)?,
        })
    }

    fn write(value: &QdiscKind, context: Context<'_>) -> String {
        match *value {
            QdiscKind::PfifoFast | QdiscKind::FqCodel => format!("\"{}\"", value.name()),
            QdiscKind::PrioSfq { quantum } => with(value.name(), DRR, &Drr { quantum }, context),
            QdiscKind::DrrPrioSfq { quantum } => with(value.name(), DRR, &Drr { quantum }, context),
            QdiscKind::Htb { rate } => with(value.name(), HTB, &Htb { rate }, context),
            QdiscKind::Tbf { rate, burst } => with(value.name(), TBF, &Tbf { rate, burst }, context),
        }
    }
}

/// The byte queue limit: `"dynamic"`, `"off"` or a size.
pub(super) struct Limit;

impl Kind for Limit {
    type Value = ByteQueueLimit;

    fn read(item: &TomlItem<'_>, context: Context<'_>) -> Result<ByteQueueLimit, ParseError> {
        match item.as_text() {
            Some("dynamic") => Ok(ByteQueueLimit::Dynamic),
            Some("off") => Ok(ByteQueueLimit::Off),
            _ => Size::<1>::read(item, context).map(ByteQueueLimit::Fixed).map_err(|error| {
                error.map_hint(|hint| {
                    format!("write \"dynamic\", \"off\" or a size such as \"256KB\" ({hint})")
                })
            }),
        }
    }

    fn write(value: &ByteQueueLimit, context: Context<'_>) -> String {
        match value {
            ByteQueueLimit::Off => "\"off\"".to_owned(),
            ByteQueueLimit::Dynamic => "\"dynamic\"".to_owned(),
            ByteQueueLimit::Fixed(size) => Size::<1>::write(size, context),
        }
    }
}

/// The scheduler of the NIC.
pub(super) struct Scheduler;

impl Kind for Scheduler {
    type Value = SchedulerKind;

    fn read(item: &TomlItem<'_>, context: Context<'_>) -> Result<SchedulerKind, ParseError> {
        const WORDS: &[&str] = &["round-robin", "deficit", "dcb", "policy"];
        let (word, inner) = item.choice(WORDS, "\"round-robin\" or { deficit = { quantum = \"1514B\" } }")?;
        Ok(match word {
            "deficit" => SchedulerKind::Deficit { quantum: own(item, word, inner, DRR, context)?.quantum },
            "dcb" => {
                let Dcb { classes, strict } = own(item, word, inner, DCB, context)?;
                SchedulerKind::Dcb { classes, strict }
            }
            _ => {
                alone(word, inner)?;
                if word == "policy" { SchedulerKind::PolicyTree } else { SchedulerKind::RoundRobin }
            }
        })
    }

    fn write(value: &SchedulerKind, context: Context<'_>) -> String {
        match *value {
            SchedulerKind::RoundRobin => "\"round-robin\"".to_owned(),
            SchedulerKind::PolicyTree => "\"policy\"".to_owned(),
            SchedulerKind::Deficit { quantum } => with("deficit", DRR, &Drr { quantum }, context),
            SchedulerKind::Dcb { classes, strict } => with("dcb", DCB, &Dcb { classes, strict }, context),
        }
    }
}

/// The steering of a flow's packets to receive queues.
pub(super) struct Steering;

/// The words of [`Steering`].
const STEERINGS: [(&str, ReceiveSteering); 4] = [
    ("rss", ReceiveSteering::Rss),
    ("to-transmit-queue", ReceiveSteering::ToTransmitQueue),
    ("to-application", ReceiveSteering::ToApplication),
    ("away-from-application", ReceiveSteering::AwayFromApplication),
];

impl Kind for Steering {
    type Value = ReceiveSteering;

    fn read(item: &TomlItem<'_>, _: Context<'_>) -> Result<ReceiveSteering, ParseError> {
        const WORDS: &[&str] = &[STEERINGS[0].0, STEERINGS[1].0, STEERINGS[2].0, STEERINGS[3].0];
        let (word, inner) = item.choice(WORDS, "\"rss\"")?;
        alone(word, inner)?;
        let known = STEERINGS.iter().find(|(name, _)| *name == word);
        Ok(known.map_or(ReceiveSteering::Rss, |(_, steering)| *steering))
    }

    fn write(value: &ReceiveSteering, _: Context<'_>) -> String {
        let known = STEERINGS.iter().find(|(_, steering)| steering == value);
        format!("\"{}\"", known.map_or("rss", |(name, _)| name))
    }
}

/// The writes that announce new descriptors.
pub(super) struct Rung;

/// The words of [`Rung`].
const RUNG: [(&str, DoorbellWrites); 4] = [
    ("per-batch", DoorbellWrites::PerBatch),
    ("per-flow", DoorbellWrites::PerFlow),
    ("per-skb", DoorbellWrites::PerSkb),
    ("none", DoorbellWrites::None),
];

impl Kind for Rung {
    type Value = DoorbellWrites;

    fn read(item: &TomlItem<'_>, _: Context<'_>) -> Result<DoorbellWrites, ParseError> {
        const WORDS: &[&str] = &[RUNG[0].0, RUNG[1].0, RUNG[2].0, RUNG[3].0];
        let (word, inner) = item.choice(WORDS, "\"per-batch\"")?;
        alone(word, inner)?;
        let known = RUNG.iter().find(|(name, _)| *name == word);
        Ok(known.map_or(DoorbellWrites::PerBatch, |(_, doorbells)| *doorbells))
    }

    fn write(value: &DoorbellWrites, _: Context<'_>) -> String {
        let known = RUNG.iter().find(|(_, doorbells)| doorbells == value);
        format!("\"{}\"", known.map_or("per-batch", |(name, _)| name))
    }
}

/// The traffic of a flow.
pub(super) struct Load;

impl Kind for Load {
    type Value = FlowTraffic;

    fn read(item: &TomlItem<'_>, context: Context<'_>) -> Result<FlowTraffic, ParseError> {
        const WORDS: &[&str] = &["bulk", "transfer", "request-response", "short", "udp"];
        let (word, inner) = item.choice(WORDS, "\"bulk\" or { transfer = \"1GB\" }")?;
        Ok(match word {
            "transfer" => {
                let missing =
                    || item.error("`transfer` needs a size", "write `traffic = { transfer = \"1GB\" }`");
                FlowTraffic::Transfer { size: Size::<1>::read(&inner.ok_or_else(missing)?, context)? }
            }
            "request-response" => {
                let r: Requests = own(item, word, inner, REQUESTS, context)?;
                let Requests { request, response, outstanding, think } = r;
                FlowTraffic::RequestResponse { request, response, outstanding, think }
            }
            "short" => {
                let Short { size, interval } = own(item, word, inner, SHORT, context)?;
                FlowTraffic::Short { size, interval }
            }
            "udp" => {
                let Udp { size, rate, poisson } = own(item, word, inner, UDP, context)?;
                FlowTraffic::Udp { size, rate, poisson }
            }
            _ => {
                alone(word, inner)?;
                FlowTraffic::Bulk
            }
        })
    }

    fn write(value: &FlowTraffic, context: Context<'_>) -> String {
        match *value {
            FlowTraffic::Bulk => "\"bulk\"".to_owned(),
            FlowTraffic::Transfer { size } => {
                format!("{{ transfer = {} }}", Size::<1>::write(&size, context))
            }
            FlowTraffic::RequestResponse { request, response, outstanding, think } => {
                let value = Requests { request, response, outstanding, think };
                with("request-response", REQUESTS, &value, context)
            }
            FlowTraffic::Short { size, interval } => with("short", SHORT, &Short { size, interval }, context),
            FlowTraffic::Udp { size, rate, poisson } => {
                with("udp", UDP, &Udp { size, rate, poisson }, context)
            }
        }
    }
}

/// The number of transmit queues, or `"per-flow"`, stored as 0.
pub(super) struct Queues;

impl Kind for Queues {
    type Value = u32;

    fn read(item: &TomlItem<'_>, context: Context<'_>) -> Result<u32, ParseError> {
        if item.as_text() == Some("per-flow") {
            return Ok(0);
        }
        // `struct net_device` allows more, but skb->queue_mapping is a u16.
        Count::<u32, 1, 65_535>::read(item, context).map_err(|error| {
            error.map_hint(|hint| format!("{hint}, or \"per-flow\" for a queue of its own for each flow"))
        })
    }

    fn write(value: &u32, _: Context<'_>) -> String {
        if *value == 0 { "\"per-flow\"".to_owned() } else { value.to_string() }
    }
}

/// The stop time of flows, or `"end"`, stored as [`Nanos::MAX`].
pub(super) struct Stop;

impl Kind for Stop {
    type Value = Nanos;

    fn read(item: &TomlItem<'_>, context: Context<'_>) -> Result<Nanos, ParseError> {
        if item.as_text() == Some("end") {
            return Ok(Nanos::MAX);
        }
        Time::<1>::read(item, context).map_err(|error| error.map_hint(|hint| format!("{hint}, or \"end\"")))
    }

    fn write(value: &Nanos, context: Context<'_>) -> String {
        if *value == Nanos::MAX { "\"end\"".to_owned() } else { Time::<1>::write(value, context) }
    }
}

/// The core of a probe: a number or `"random"`.
pub(super) struct Core;

impl Kind for Core {
    type Value = Option<u32>;

    fn read(item: &TomlItem<'_>, context: Context<'_>) -> Result<Option<u32>, ParseError> {
        if item.as_text() == Some("random") {
            return Ok(None);
        }
        Count::<u32, 0, 65_535>::read(item, context)
            .map(Some)
            .map_err(|error| error.map_hint(|hint| format!("{hint}, or \"random\"")))
    }

    fn write(value: &Option<u32>, _: Context<'_>) -> String {
        value.map_or_else(|| "\"random\"".to_owned(), |core| core.to_string())
    }
}

/// Returns the keys of all choices: table, key and default.
pub(super) fn reference(context: Context<'_>) -> Vec<(&'static str, &'static str, String)> {
    fn of<T: Default>(
        table: &'static str,
        keys: &'static [Key<T>],
        context: Context<'_>,
    ) -> Vec<(&'static str, &'static str, String)> {
        let value = T::default();
        let default = |key: &Key<T>| match REQUIRED.contains(&(table, key.name)) {
            true => "required".to_owned(),
            false => (key.write)(&value, context),
        };
        keys.iter().map(|key| (table, key.name, default(key))).collect()
    }
    [
        of("dumbbell", DUMBBELL, context),
        of("leaf-spine", LEAF_SPINE, context),
        of("prio+sfq", DRR, context),
        of("drr+prio+sfq", DRR, context),
        of("htb", HTB, context),
        of("tbf", TBF, context),
        of("deficit", DRR, context),
        of("dcb", DCB, context),
        of("request-response", REQUESTS, context),
        of("short", SHORT, context),
        of("udp", UDP, context),
    ]
    .concat()
}
