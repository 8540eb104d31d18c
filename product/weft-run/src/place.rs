//! The gate: whether a place can run a policy, and if not, why and what to do instead.
//!
//! Each place says it by the function that it starts itself with, so that the answer and the start cannot differ:
//!
//! | place | facts | function |
//! |---|---|---|
//! | [`Place::Port`] | rings of the port, lanes, algorithms, match tables, workers | [`NicSettings::plan`] |
//! | [`Place::Daemon`] | the same for each of its ports, with the share of a port | [`NicSettings::plan_for_ports`] |
//! | [`Place::Sim`] | no users | [`CompileOptions::of_simulated`] |
//! | [`Place::Replay`] | the link's rate | [`weft_replay::can_replay`] |
//! | [`Place::Kernel`] | the link's rate, the statements that stock qdiscs keep | [`weft_policy::kernel::lower`] |
//! | [`Place::Tc`] | the link's rate, the qdiscs and their filters | [`weft_policy::export::to_tc`] |

use crate::session::{NicSettings, SessionError};
use core::fmt::Write;
use weft_nic::nic::NicError;
use weft_nic::plan::PlanError;
use weft_packet::Attribute;
use weft_policy::export::losses;
use weft_policy::kernel::lower;
use weft_policy::promise::{About, CLASSES, Kept, LIMITS, ORDER, Promise, Refusal, refused_with};
use weft_policy::{CompileOptions, CompiledPolicy, Diagnostic, Source, TenantFiles, compile_with};
use weft_units::BitsPerSec;

/// A place that runs policies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// The port of `weft run`.
    Port,
    /// The ports of the daemon.
    Daemon,
    /// The NICs of simulated hosts.
    Sim,
    /// A replay of a capture.
    Replay,
    /// The kernel's qdiscs, with a classifying program.
    Kernel,
    /// The kernel's qdiscs, by commands of tc(8).
    Tc,
}

/// The answer of a place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The place.
    pub place: Place,
    /// The promises of the policy, as far as it keeps them.
    pub promises: Vec<Promise>,
    /// The reason why it cannot run it, if it cannot.
    pub refusal: Option<Refusal>,
}

/// The rate for the check of a place that needs one, where the policy states none and the command takes one.
const GIVEN: BitsPerSec = BitsPerSec(1_000_000_000);

impl Place {
    /// All places.
    pub const ALL: [Self; 6] = [Self::Port, Self::Daemon, Self::Sim, Self::Replay, Self::Kernel, Self::Tc];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Port => "port",
            Self::Daemon => "daemon",
            Self::Sim => "sim",
            Self::Replay => "replay",
            Self::Kernel => "kernel",
            Self::Tc => "tc",
        }
    }

    /// The words for it in a sentence.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Port => "a port of `weft run`",
            Self::Daemon => "a port of the daemon",
            Self::Sim => "the simulator",
            Self::Replay => "a replay",
            Self::Kernel => "the kernel's qdiscs",
            Self::Tc => "tc",
        }
    }

    /// Asks the place about `policy`, which is compiled for this host from `source`.
    pub fn ask(self, policy: &CompiledPolicy, (source, files): (Source<'_>, &dyn TenantFiles)) -> Answer {
        let refusal = match self {
            Self::Port => NicSettings::of_policy(policy)
                .plan(policy, Vec::new(), weft_nic::doorbell::RINGS)
                .err()
                .map(|error| refusal(&error, policy)),
            Self::Daemon => {
                let settings = NicSettings::of_policy(policy);
                let ports = policy.ports.iter().map(|name| vec![name.as_str()]);
                let mut planned = ports.chain([vec![]]).map(|names| settings.plan_for_ports(policy, &names));
                planned.find_map(Result::err).map(|error| refusal(&error, policy))
            }
            Self::Sim => simulator(policy.link, source, files),
            Self::Replay => weft_replay::can_replay(policy, Some(policy.link.unwrap_or(GIVEN)))
                .err()
                .map(|error| Refusal::split(About::Surroundings, &error.to_string())),
            Self::Kernel => match lower(policy) {
                Ok(lowered) => lowered.refusal(),
                Err(error) => Some(error.refusal()),
            },
            Self::Tc => losses(&with_rate(policy))
                .err()
                .map(|error| Refusal::split(About::Surroundings, &error.to_string())),
        };
        Answer { place: self, promises: self.promises(policy, refusal.as_ref()), refusal }
    }

    /// The promises of `policy`, each with what the place keeps of it.
    fn promises(self, policy: &CompiledPolicy, refusal: Option<&Refusal>) -> Vec<Promise> {
        let of_kernel = match self {
            Self::Kernel => Some(lower(policy).map(|lowered| lowered.promises()).ok()),
            Self::Tc => Some(losses(&with_rate(policy)).ok()),
            _ => None,
        };
        if let Some(promises) = of_kernel {
            let refused = || refusal.map(|refusal| broken("the policy runs", refusal)).into_iter().collect();
            return promises.unwrap_or_else(refused);
        }
        let mut promises = vec![self.classes(policy)];
        if policy.link.is_none() && self == Self::Replay {
            let within = "with the link's rate as an option: `--rate 1gbps`, or `link 1gbps` in the policy";
            promises.push(Promise::within(LINK, within));
        }
        let algorithms = policy.program.algorithms().into_iter().map(|of| format!("algorithm {}", of.name));
        let limits = (!policy.program.limits.is_empty()).then(|| LIMITS.to_owned());
        promises.extend([ORDER.to_owned()].into_iter().chain(limits).chain(algorithms).map(Promise::kept));
        let Some(refusal) = refusal else { return promises };
        let about = match &refusal.about {
            About::Algorithm { algorithm, .. } => format!("algorithm {algorithm}"),
            About::Lanes => ORDER.to_owned(),
            About::Rows => CLASSES.to_owned(),
            About::Surroundings | About::Named(_) => LINK.to_owned(),
        };
        promises.retain(|promise| promise.promise != about);
        promises.push(broken(&about, refusal));
        promises
    }

    /// Returns the promise about classes: the attributes of packets that the place does not have.
    fn classes(self, policy: &CompiledPolicy) -> Promise {
        let unknown: &[Attribute] = match self {
            Self::Port | Self::Daemon | Self::Kernel | Self::Tc => &[],
            Self::Sim => &Attribute::ALL,
            Self::Replay => &[Attribute::User, Attribute::ClassId, Attribute::Cookie, Attribute::Process],
        };
        let known_here = |attribute: Attribute| self == Self::Sim && attribute == Attribute::Process;
        let tested = unknown.iter().filter(|of| policy.tests(**of) && !known_here(**of));
        let mut words: Vec<&str> = tested.map(|attribute| attribute.word()).collect();
        let tests =
            |test: &dyn Fn(&weft_packet::Match) -> bool| policy.rules.iter().any(|row| test(&row.matcher));
        if matches!(self, Self::Sim | Self::Replay) {
            words.extend(tests(&|row| row.mark.is_some()).then_some("mark"));
            words.extend(tests(&|row| row.priority.is_some()).then_some("priority"));
        }
        if self == Self::Replay && !policy.cgroups.is_empty() {
            words.push("cgroup");
        }
        if !words.is_empty() {
            let packets = if self == Self::Sim { "simulated" } else { "captured" };
            return Promise::within(CLASSES, format!("{packets} packets have no {}", words.join(", ")));
        }
        match self {
            Self::Port | Self::Daemon if policy.tests(Attribute::Process) => Promise::within(
                CLASSES,
                "a class by process, where this kernel lets a program note who makes a socket",
            ),
            Self::Port | Self::Daemon if !policy.cgroups.is_empty() => Promise::within(
                CLASSES,
                "a class by cgroup has packets of this host's sockets, and none that it only routes",
            ),
            _ => Promise::kept(CLASSES),
        }
    }
}

const LINK: &str = "the link has a rate";

fn broken(promise: &str, refusal: &Refusal) -> Promise {
    Promise { instead: Some(refusal.instead.clone()), ..Promise::broken(promise, &refusal.reason) }
}

/// `policy` on a link of a known rate.
fn with_rate(policy: &CompiledPolicy) -> CompiledPolicy {
    CompiledPolicy { link: Some(policy.link.unwrap_or(GIVEN)), ..policy.clone() }
}

/// Asks the simulator, which compiles policies for simulated hosts.
fn simulator(link: Option<BitsPerSec>, source: Source<'_>, files: &dyn TenantFiles) -> Option<Refusal> {
    let compilation = compile_with(source, files, &CompileOptions::of_simulated(link));
    let error = compilation.diagnostics.iter().find(|diagnostic| diagnostic.is_error())?;
    let reason = format!("{} (simulated hosts have no users)", error.message);
    Some(Refusal { about: About::Surroundings, reason, instead: error.help.clone() })
}

/// The refusal of `policy` by a NIC.
pub fn refusal(error: &SessionError, policy: &CompiledPolicy) -> Refusal {
    match error {
        SessionError::Nic(NicError::Plan(PlanError::Lanes { lanes, rings })) => {
            let mut instead =
                "merge classes or destinations of a limit, or split the policy over two ports".to_owned();
            if *lanes <= weft_nic::doorbell::RINGS && *rings < weft_nic::doorbell::RINGS {
                let _ = write!(
                    instead,
                    "; or run it by `weft run`, whose port has {}",
                    weft_nic::doorbell::RINGS
                );
            }
            let reason = format!("it has {lanes} lanes, and its port has {rings} rings: each lane needs one");
            Refusal { about: About::Lanes, reason, instead }
        }
        SessionError::Nic(NicError::Plan(PlanError::Algorithm { place, algorithm, .. })) => {
            let about = About::Algorithm { place: place.clone(), algorithm: algorithm.clone() };
            let mut refusal = Refusal::split(about, &error.to_string());
            // The engine runs all of them.
            let replay =
                if weft_replay::can_replay(policy, Some(GIVEN)).is_ok() { " and `weft replay`" } else { "" };
            let _ = write!(refusal.instead, "; it runs in `weft sim`{replay}");
            refusal
        }
        SessionError::Nic(NicError::Plan(PlanError::TooManyLanes { .. })) => {
            Refusal::split(About::Lanes, &error.to_string())
        }
        SessionError::Nic(NicError::Table(_)) => Refusal::split(About::Rows, &error.to_string()),
        _ => Refusal::split(About::Surroundings, &error.to_string()),
    }
}

impl Answer {
    /// Whether the place can run the policy.
    pub fn runs(&self) -> bool {
        self.refusal.is_none()
    }

    /// The refusal as an error at its place in the text.
    pub fn diagnostic(
        &self,
        (source, files): (Source<'_>, &dyn TenantFiles),
        options: &CompileOptions,
    ) -> Option<Diagnostic> {
        refused_with(source, files, options, (self.place.title(), self.refusal.as_ref()?))
    }
}

/// The answers of places in a line, such as `runs in: port yes; daemon no (...)`.
pub fn line(answers: &[Answer]) -> String {
    let one = |answer: &Answer| {
        let name = answer.place.name();
        match &answer.refusal {
            Some(Refusal { reason, instead, .. }) => format!("{name} no ({reason}; {instead})"),
            None => {
                let open = answer.promises.iter().filter(|promise| promise.kept != Kept::Yes);
                match (answer.place, open.count()) {
                    (Place::Tc, losses) if losses > 0 => format!("{name} with {losses} losses"),
                    _ => format!("{name} yes"),
                }
            }
        }
    };
    format!("runs in: {}", answers.iter().map(one).collect::<Vec<_>>().join("; "))
}
