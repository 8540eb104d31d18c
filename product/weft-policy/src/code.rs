//! The stable codes of the compiler's diagnostics.

use core::fmt;

/// The severity of a diagnostic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Severity {
    /// The policy compiles and is correct; it has a consequence that its author may not know.
    Note,
    /// The policy compiles, but probably does not do what its author meant.
    Warning,
    /// The policy is refused.
    Error,
}

impl Severity {
    /// `error`, `warning` or `note`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Declares the codes: variant, stable text, and meaning.
macro_rules! codes {
    ($($name:ident $text:literal $meaning:literal;)*) => {
        /// A stable code: `E....` refuses the policy, `W....` warns, `N....` notes. A code never changes its meaning.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Code {
            $(#[doc = $meaning] $name,)*
        }

        impl Code {
            /// Every code, in order.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The stable text.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// The meaning of the code, in one sentence.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning,)* }
            }
        }
    };
}

codes! {
    Unexpected "E0001" "Something else was expected here.";
    UnknownCharacter "E0002" "The character has no meaning in a policy.";
    UnterminatedString "E0003" "A text in quotes does not end on its line.";
    TooDeeplyNested "E0004" "Parentheses, `not` or braces are nested too deeply.";
    TooLarge "E0005" "The file is too large to be a policy.";
    ReservedName "E0006" "A word of the language cannot be a name.";
    NotText "E0007" "The file is not UTF-8 text.";

    BadRate "E0101" "A rate cannot be read.";
    ZeroRate "E0102" "A rate of zero would hold its packets forever.";
    BadWeight "E0103" "A weight is not a whole number from 1 to 4294967295.";
    BadPrefix "E0104" "An address prefix cannot be read.";
    HostBits "E0105" "A prefix has bits set beyond its length.";
    BadPort "E0106" "A port is not a number from 1 to 65535, or a range of them.";
    ReversedPorts "E0107" "A range of ports ends before it begins.";
    BadProtocol "E0108" "A protocol is not a number from 0 to 255.";
    BadMark "E0109" "A mark or its mask is not a 32-bit number.";
    MarkBeyondMask "E0110" "A mark has bits outside its mask, so no packet can match.";
    BadPriority "E0111" "A priority is not a 32-bit number.";
    BadCgroup "E0112" "A cgroup path is invalid.";
    BadSize "E0113" "A burst size cannot be read.";
    BadBound "E0114" "A bound is not a number of packets of at least 1.";
    BadLatency "E0115" "A latency is not a time above zero.";
    BadPortName "E0116" "The name of a port is invalid.";
    BadAttribute "E0117" "A VLAN, priority code point, DSCP, ECN, user, class of net_cls or cookie cannot be read.";
    UnknownUser "E0118" "The host has no user of this name.";
    NoProcess "E0119" "A packet does not say the number or the file of the process that sent it.";
    BadProcess "E0120" "The name of a process is empty, too long, or has a control character.";

    UnknownName "E0201" "Nothing in the policy has this name.";
    DefinedTwice "E0202" "A name is defined twice.";
    MissingRoot "E0203" "The policy does not say what the link serves.";
    ClassNotPlaced "E0204" "A class cannot be reached from the root, so its packets would have no queue.";
    NoChildren "E0205" "A node has no children.";
    ChildTwice "E0206" "A node lists a child twice.";
    DefaultRedefined "E0207" "`default` is the class of packets that no other class takes, and cannot be redefined.";
    StatedTwice "E0208" "A statement that may appear once appears twice.";
    WeightMissing "E0209" "A child of `wfq` has no weight.";
    WeightUnwanted "E0210" "A child has a weight, but its node is not `wfq`.";
    DestinationTwice "E0211" "Two limits side by side hold for the same destination or port.";
    NotAClass "E0212" "The name of a class was expected.";
    UnknownLimit "E0213" "The rate of a limit was to be replaced, but the policy has no such limit.";

    SharedChild "E0301" "Loom, section 4: a node whose parent is a scheduling node may have at most one parent.";
    MixedParents "E0302" "Loom, section 4: a node may have several parents only if all of them are shaping nodes.";
    NoCommonFifo "E0303" "Loom, section 4: all sibling shaping nodes must share a single FIFO parent.";
    Cycle "E0304" "Loom, section 4: the policy must be a tree once its shaping nodes are removed; here it has a cycle.";
    FifoOverScheduled "E0305" "A FIFO would merge traffic that its children have already ordered.";
    FairNotOneClass "E0306" "`fair of` shares between the flows of one class.";

    TooManyCgroups "E0401" "The rules name more cgroups than a packet's metadata has bits.";
    TooManyRows "E0402" "The classes need more rows than a match table may have.";
    PredicateTooLarge "E0403" "A class's condition has too many alternatives or tests.";
    TooDeepTree "E0404" "The policy has too many levels.";
    CgroupsNotComparable "E0405" "An absolute and a relative cgroup path cannot be joined by `and` in one row.";
    TooManyNodes "E0406" "The policy has too many nodes.";
    TooManyPorts "E0407" "The rules name too many ports.";
    TooMuchWork "E0408" "The policy needs too many steps to compile.";

    UnitMismatch "E0501" "Quantities of different units meet in an algorithm.";
    DivisorZero "E0502" "A divisor may be 0.";
    MissingMetadata "E0503" "A packet may not have this metadata, and `or` is missing.";
    UnknownValue "E0504" "An algorithm knows no value or function of this name.";
    NotHere "E0505" "A value or a statement has no meaning in this part of an algorithm.";
    PartMissing "E0506" "An algorithm lacks a part that its kind needs.";
    PartUnwanted "E0507" "An algorithm has a part that its kind does not have.";
    TooMuch "E0508" "An algorithm has too many operations or too much state.";
    NotAssignable "E0509" "Only fields can be assigned.";
    BadArgument "E0510" "An algorithm or a function is given wrong arguments.";
    WrongPlace "E0511" "An algorithm cannot stand at this place.";
    ProfileRefuses "E0512" "A place of execution cannot run the policy.";
    BadQuantity "E0514" "A quantity in an algorithm cannot be read.";

    BadTenantFile "E0601" "The file of a tenant cannot be read.";
    TenantCircle "E0602" "The files of tenants name each other in a circle.";
    TooManyTenants "E0603" "Tenants are nested too deeply, or there are too many.";
    TenantsName "E0604" "A name that begins with a tenant's belongs to the tenant's file.";
    OperatorsOnly "E0605" "A statement or a value is for the operator and cannot be in a tenant's file.";
    OverQuota "E0606" "A tenant's file needs more than its quota.";
    ClaimsAbove "E0607" "Claims of a tenant's packets would order the tenant among its siblings.";
    TenantWithoutCgroup "E0608" "The file of a tenant that has no cgroup tests one.";
    BadQuota "E0609" "A quota of a tenant cannot be read.";
    TenantUnnamed "E0610" "A tenant needs a name of its own.";

    BadGoal "E0701" "A number or a formula of a steering clause cannot be read.";
    NotReceived "E0702" "A steering clause names a class that a NIC cannot tell by received packets.";
    SteeredTwice "E0703" "Steering clauses name a class both by itself and by a node above it.";
    NotForTitan "E0704" "Titan cannot match the packets of a class.";

    UnusedNode "W0001" "A node is defined but cannot be reached from the root.";
    LimitAboveLink "W0002" "A limit is above the link's rate, so it never delays a packet.";
    ClassShadowed "W0003" "Earlier classes take every packet that this class describes.";
    NeverTrue "W0004" "No packet can pass all tests of this class.";
    TenantWithoutFile "W0005" "A tenant has no file, so its packets share one FIFO.";
    DefaultOutside "W0006" "The root begins with limits that do not hold for `default`.";

    AnyonesPriority "N0001" "A class tests a priority that any program may set on its packets.";
}

impl Code {
    /// Whether the code refuses the policy, warns or notes.
    pub const fn severity(self) -> Severity {
        match self.as_str().as_bytes()[0] {
            b'N' => Severity::Note,
            b'W' => Severity::Warning,
            _ => Severity::Error,
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_in_order_within_their_severity() {
        for severity in [Severity::Error, Severity::Warning, Severity::Note] {
            let codes: Vec<&str> =
                Code::ALL.iter().filter(|c| c.severity() == severity).map(|c| c.as_str()).collect();
            assert!(codes.windows(2).all(|pair| pair[0] < pair[1]), "{codes:?}");
        }
    }
}
