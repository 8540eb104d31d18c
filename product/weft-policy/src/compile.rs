//! The compiler's passes in order, and the diagnostics that they return.
//!
//! A policy with tenants passes twice: `tenants` checks each file alone, with a queue in the place of each tenant, and puts the models
//! together (`merge`); the later passes then see one model, whose places (`texts`) say the file, too.

mod correct;
mod default_place;
mod fallback;
mod faults;
mod merge;
mod quotas;
mod shared;
mod tenants;
mod texts;

use self::correct::Work;
pub use self::fallback::{Fallback, TooManyRefused, compile_with_fallback};
use self::faults::Faults;
use self::shared::Sharer;
use self::texts::Texts;
use crate::algorithm::uses::Use;
use crate::budget::{Budget, Steps};
use crate::code::Code;
use crate::compiled::CompiledPolicy;
use crate::cost::{self, PolicyCost, Profile};
use crate::diagnostic::{Diagnostic, SpannedDiagnostic};
use crate::drawing::{Drawing, Part};
use crate::files::{AtFault, FileText, NoFiles, Tenant, TenantFiles};
use crate::lowering::model::{Branch, PORTS_MAX, Policy, Spanned, port_number};
use crate::program::{self, TooManyRows, limit_name};
use crate::region::Region;
use crate::syntax::SyntaxNode;
use crate::users::Users;
use crate::validate::graph::{Graph, Kind};
use crate::validate::shape::{Shape, find_cycles};
use crate::validate::{algorithms, build, rows, rules, terms};
use crate::{lowering, steering, syntax};
use std::collections::BTreeSet;
use weft_facts::ports::LimitedPort;
use weft_steer::policy::PolicyFile;
use weft_text::{LineIndex, Span, nearest, quoted};
use weft_units::BitsPerSec;

/// A policy's text, and its name in diagnostics.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The file's name, or another label for the source of the text.
    pub name: &'a str,
    /// The text.
    pub text: &'a str,
}

/// Values from the caller that replace those in the policy's text.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CompileOptions {
    /// New rates of limits, by the limit's name (`T1[10.0.1.0/24]`), or by the node's name (`T1`) for all limits of that
    /// node.
    pub overrides: Vec<(String, BitsPerSec)>,
    /// The link's rate, in place of the one that the policy states.
    pub link: Option<BitsPerSec>,
    /// Limits of ports, which hold for all packets of the ports beside the policy's own limits.
    pub port_limits: Vec<LimitedPort>,
    /// The host's users, by whose names a policy may test them.
    pub users: Users,
    /// The most steps.
    pub steps: Steps,
}

impl CompileOptions {
    /// The options that compile the policies of simulated hosts, on a link of `rate`. Simulated hosts have no users.
    pub fn of_simulated(rate: Option<BitsPerSec>) -> Self {
        Self { link: rate, ..Self::default() }
    }
}

/// The result of a compilation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Compilation {
    /// The compiled policy; `None` if and only if the diagnostics hold an error.
    pub policy: Option<CompiledPolicy>,
    /// All diagnostics of the text, in the order of their places; then those of tenants' files.
    pub diagnostics: Vec<Diagnostic>,
    /// The tenants, each before those below it, with the texts of their files.
    pub tenants: Vec<Tenant>,
    /// The tenants whose files have errors. A policy that is refused without any is the operator's to correct.
    pub at_fault: AtFault,
    /// The steps that it took to make the tables; none for a policy that is refused before.
    pub steps: Steps,
}

impl Compilation {
    /// Whether the policy is refused.
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }

    /// The same with those corrections that hold.
    fn corrected(
        mut self,
        source: Source<'_>,
        files: &dyn TenantFiles,
        work: &mut Work,
        again: correct::Again<'_>,
    ) -> Self {
        let texts: Vec<&FileText> = self.tenants.iter().filter_map(|tenant| tenant.file.as_ref()).collect();
        correct::keep(&mut self.diagnostics, source, &texts, files, work, again);
        for error in self.at_fault.values_mut() {
            let same =
                |of: &&Diagnostic| (of.code, of.span, &of.file) == (error.code, error.span, &error.file);
            error.fix = self.diagnostics.iter().find(same).and_then(|of| of.fix.clone());
        }
        self
    }
}

/// The most diagnostics returned for one text. Those beyond it rarely add information.
pub const DIAGNOSTICS_MAX: usize = 200;

/// Parses a policy without compiling it: returns the lossless tree and the syntax errors. The tree's text is the
/// policy's text, byte by byte, or empty for a text longer than [`syntax::TEXT_MAX`]. Never fails; meant for language servers. The errors' corrections are
/// proposals, which may not hold.
pub fn parse(source: Source<'_>) -> (SyntaxNode, Vec<Diagnostic>) {
    let (tree, diagnostics) = syntax::parse(source.text);
    (tree, located(diagnostics, &Texts::new(source.name, source.text)))
}

/// Parses a policy as [`parse`], with those corrections after which fewer syntax errors are left.
pub(crate) fn parse_corrected(source: Source<'_>) -> (SyntaxNode, Vec<Diagnostic>) {
    let (tree, mut errors) = parse(source);
    let again = |source: Source<'_>, _: &dyn TenantFiles, _| (parse(source).1, Steps(0));
    correct::keep(&mut errors, source, &[], &NoFiles, &mut Work::default(), &again);
    (tree, errors)
}

/// Compiles a policy whose tenants have no files to be read: one that names a tenant is refused. Accepts any text; the
/// diagnostics report its errors.
pub fn compile(source: Source<'_>, options: &CompileOptions) -> Compilation {
    compile_with(source, &NoFiles, options)
}

/// Compiles a policy with the files of its tenants. Accepts any text; the diagnostics report its errors.
pub fn compile_with(source: Source<'_>, files: &dyn TenantFiles, options: &CompileOptions) -> Compilation {
    compile_within(source, files, options, &mut Work::default())
}

/// Compiles a policy, and its corrected texts with the work that is left.
fn compile_within(
    source: Source<'_>,
    files: &dyn TenantFiles,
    options: &CompileOptions,
    work: &mut Work,
) -> Compilation {
    let compilation = compile_once(source, files, options);
    compilation.corrected(source, files, work, &|source, files, steps| {
        let options = CompileOptions { steps: steps.min(options.steps), ..options.clone() };
        let Compilation { diagnostics, steps, .. } = compile_once(source, files, &options);
        (diagnostics, steps)
    })
}

/// Compiles a policy. Its corrections are proposals.
fn compile_once(source: Source<'_>, files: &dyn TenantFiles, options: &CompileOptions) -> Compilation {
    let lines = LineIndex::new(source.text);
    let mut pass = Pass::new(source, files, &lines, Some(&options.users));
    let policy = pass.run(source.text, options);
    let refused = pass.failed();
    // Notes describe the effect of a policy; a refused policy has none.
    if refused {
        pass.diagnostics.retain(|diagnostic| !diagnostic.is_note());
    }
    pass.finish(policy.filter(|_| !refused))
}

/// Sorts the diagnostics by place, keeps one per place and code, and at most [`DIAGNOSTICS_MAX`] in all.
fn located(mut diagnostics: Vec<SpannedDiagnostic>, texts: &Texts) -> Vec<Diagnostic> {
    diagnostics.sort_by_key(SpannedDiagnostic::place);
    diagnostics.dedup_by_key(|diagnostic| diagnostic.place());
    // Of the errors at one place, the first pass's is the cause.
    diagnostics.dedup_by(|later, first| {
        later.is_error()
            && first.is_error()
            && later.span().start == first.span().start
            && later.span().start > 0
    });
    // When there are too many, errors are kept and the others dropped.
    if diagnostics.len() > DIAGNOSTICS_MAX && diagnostics.iter().any(SpannedDiagnostic::is_error) {
        diagnostics.retain(SpannedDiagnostic::is_error);
    }
    diagnostics.truncate(DIAGNOSTICS_MAX);
    texts.locate(diagnostics)
}

/// The price of a policy without tenants' files; see [`price_with`].
pub fn price(source: Source<'_>, profiles: &[Profile]) -> (Option<PolicyCost>, Vec<Diagnostic>) {
    let (cost, compilation) = price_with(source, &NoFiles, profiles);
    (cost, compilation.diagnostics)
}

/// The price of a policy with its algorithms and its tenants; refusals of `profiles` are errors. A policy with other errors has no
/// price. The compilation has diagnostics and tenants, and no policy.
pub fn price_with(
    source: Source<'_>,
    files: &dyn TenantFiles,
    profiles: &[Profile],
) -> (Option<PolicyCost>, Compilation) {
    let (cost, compilation) = price_once(source, files, profiles);
    let compilation = compilation.corrected(source, files, &mut Work::default(), &|source, files, _| {
        (price_once(source, files, profiles).1.diagnostics, Steps(0))
    });
    (cost, compilation)
}

fn price_once(
    source: Source<'_>,
    files: &dyn TenantFiles,
    profiles: &[Profile],
) -> (Option<PolicyCost>, Compilation) {
    let lines = LineIndex::new(source.text);
    let mut pass = Pass::new(source, files, &lines, None);
    let checked = pass.check(source.text, &CompileOptions::default());
    let checked = checked.filter(|_| !pass.failed());
    let cost = checked.map(|Checked { policy, graph, shape }| cost::count(&policy, &graph, &shape));
    if let Some(cost) = &cost {
        pass.diagnostics.extend(profiles.iter().flat_map(|profile| profile.refusals(cost)));
    }
    (cost, pass.finish(None))
}

/// The drawing of a policy with its tenants, if its graph has no error.
pub fn draw(source: Source<'_>, files: &dyn TenantFiles) -> Option<Drawing> {
    let lines = LineIndex::new(source.text);
    let mut pass = Pass::new(source, files, &lines, None);
    let checked = pass.check(source.text, &CompileOptions::default());
    let Checked { policy, graph, shape } = checked.filter(|_| !pass.failed())?;
    let mut parts = vec![Part { of: String::new(), base: 0, text: source.text.into() }];
    for tenant in &pass.tenants {
        let Some(file) = &tenant.file else { continue };
        let number = pass.texts.add(&file.name, &file.text);
        let Some(text) = pass.texts.get(number) else { continue };
        parts.push(Part { of: format!("{}.", tenant.name), base: text.base, text: text.text.clone() });
    }
    Some(Drawing::new(&parts, &policy, &graph, &shape))
}

/// The goals of a policy's steering clauses with its classes, for a planner; `None` for a policy that is refused or has none. The
/// compilation has diagnostics and tenants, and no policy.
pub fn steer_with(
    source: Source<'_>,
    files: &dyn TenantFiles,
    options: &CompileOptions,
) -> (Option<PolicyFile>, Compilation) {
    let (goals, compilation) = steer_once(source, files, options);
    let compilation = compilation.corrected(source, files, &mut Work::default(), &|source, files, _| {
        (steer_once(source, files, options).1.diagnostics, Steps(0))
    });
    (goals, compilation)
}

fn steer_once(
    source: Source<'_>,
    files: &dyn TenantFiles,
    options: &CompileOptions,
) -> (Option<PolicyFile>, Compilation) {
    let lines = LineIndex::new(source.text);
    let mut pass = Pass::new(source, files, &lines, Some(&options.users));
    let checked = pass.check(source.text, options).filter(|_| !pass.failed());
    let file = checked.and_then(|Checked { policy, graph, .. }| steering::policy_file(&policy, &graph));
    (file, pass.finish(None))
}

/// The diagnostic of a caller for a policy that has passed the checks, in its place, and the tenants.
pub(crate) fn checked_with(
    source: Source<'_>,
    files: &dyn TenantFiles,
    options: &CompileOptions,
    find: &dyn Fn(&Policy, &Graph, &Shape) -> SpannedDiagnostic,
) -> (Option<Diagnostic>, Vec<Tenant>) {
    let lines = LineIndex::new(source.text);
    let mut pass = Pass::new(source, files, &lines, Some(&options.users));
    let checked = pass.check(source.text, options).filter(|_| !pass.failed());
    let found = checked.map(|Checked { policy, graph, shape }| find(&policy, &graph, &shape));
    (located(found.into_iter().collect(), &pass.texts).pop(), pass.tenants)
}

/// A policy that has passed the checks, if no diagnostic is an error.
struct Checked {
    policy: Policy,
    graph: Graph,
    shape: Shape,
}

/// The diagnostics so far, the texts and tenants that were read, and the lines of the policy's own text.
struct Pass<'a> {
    diagnostics: Vec<SpannedDiagnostic>,
    lines: &'a LineIndex<'a>,
    files: &'a dyn TenantFiles,
    texts: Texts,
    tenants: Vec<Tenant>,
    /// The tenants in the same order, as those who share tables.
    sharers: Vec<Sharer>,
    faults: Faults,
    /// The host's users; `None` where their names are not checked.
    users: Option<&'a Users>,
    steps: Steps,
}

/// Whether the text or the compiler has placed `default`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DefaultPlace {
    ByText,
    ByCompiler,
}

impl<'a> Pass<'a> {
    fn new(
        source: Source<'_>,
        files: &'a dyn TenantFiles,
        lines: &'a LineIndex<'a>,
        users: Option<&'a Users>,
    ) -> Self {
        let texts = Texts::new(source.name, source.text);
        let (diagnostics, tenants, sharers) = (Vec::new(), Vec::new(), Vec::new());
        let (faults, steps) = (Faults::default(), Steps(0));
        Self { diagnostics, lines, files, texts, tenants, sharers, faults, users, steps }
    }

    fn failed(&self) -> bool {
        self.diagnostics.iter().any(SpannedDiagnostic::is_error)
    }

    /// The compilation with this result.
    fn finish(self, policy: Option<CompiledPolicy>) -> Compilation {
        let at_fault = self.at_fault();
        let diagnostics = located(self.diagnostics, &self.texts);
        Compilation { policy, diagnostics, tenants: self.tenants, at_fault, steps: self.steps }
    }

    fn run(&mut self, text: &str, options: &CompileOptions) -> Option<CompiledPolicy> {
        let Checked { mut policy, mut graph, mut shape } = self.check(text, options)?;
        if self.failed() {
            return None;
        }
        if !options.port_limits.is_empty() {
            shape = self.limit_ports(&options.port_limits, &mut policy, &mut graph)?;
        }
        let budget = Budget::shared(options.steps, self.owners(&policy));
        let (rows, diagnostics) = rows::table(&policy, &budget);
        self.steps = budget.used();
        self.diagnostics.extend(diagnostics);
        if self.failed() {
            return None;
        }
        let compiled = program::compile(&policy, &graph, &shape, &rows, &budget);
        self.steps = budget.used();
        match compiled {
            Ok(compiled) => {
                let roots = self.roots(&graph, &shape);
                self.check_tables(&policy, &compiled, &rows, budget.owners(), &roots);
                Some(compiled)
            }
            Err(refused) => {
                for TooManyRows { class } in refused {
                    let (name, span) = (&graph.nodes[class].name, graph.nodes[class].span);
                    budget.charge_tree(class);
                    self.diagnostics.push(match budget.is_exhausted() {
                        true => rows::too_much_work(name, span, &budget),
                        false => rows::too_many_rows(span, terms::ROWS_MAX),
                    });
                }
                None
            }
        }
    }

    /// Runs the passes up to the checks of the graph.
    fn check(&mut self, text: &str, options: &CompileOptions) -> Option<Checked> {
        let (mut policy, mut readable) = self.read(text);
        if !policy.tenants.is_empty() {
            // The names of ports that have limits are the operator's, too.
            for limit in &options.port_limits {
                let _ = port_number(&mut policy.ports, &limit.port);
            }
            policy = self.with_tenants(policy, readable)?;
            readable = true;
        }
        let (mut graph, diagnostics) = build::build(&mut policy, readable, self.lines);
        self.diagnostics.extend(diagnostics);
        self.apply(options, &mut policy, &mut graph);
        self.check_bounds(&policy, &graph);
        let link = policy.link.as_ref().map(|link| link.value);
        let (shape, default) = self.check_graph(&mut graph, &policy.uses, link)?;
        if default == DefaultPlace::ByCompiler {
            self.diagnostics.extend(default_place::outside(&policy, &graph, self.lines.text()));
        }
        self.diagnostics.extend(algorithms::check(&graph, &shape, &policy.uses));
        self.diagnostics.extend(steering::check(&policy, &graph));
        Some(Checked { policy, graph, shape })
    }

    /// The model of a text, and whether the whole text could be parsed.
    fn read(&mut self, text: &str) -> (Policy, bool) {
        let (tree, diagnostics) = syntax::parse(text);
        let readable = diagnostics.is_empty();
        let (policy, more) = lowering::lower(&tree, &diagnostics, self.users);
        self.diagnostics.extend(diagnostics);
        self.diagnostics.extend(more);
        (policy, readable)
    }

    /// Replaces rates in the text by those of the caller's options.
    fn apply(&mut self, options: &CompileOptions, policy: &mut Policy, graph: &mut Graph) {
        if let Some(value) = options.link {
            let span = policy.link.as_ref().map_or(Span::default(), |link| link.span);
            policy.link = Some(Spanned { value, span });
        }
        for (name, rate) in &options.overrides {
            let mut found = false;
            for node in &mut graph.nodes {
                let Kind::Limit(branches) = &mut node.kind else { continue };
                let whole = node.name == *name;
                for branch in branches.iter_mut().filter(|b| whole || limit_name(&node.name, b) == *name) {
                    found = true;
                    branch.rate = *rate;
                }
            }
            let (name, place) = (quoted(name), Span::default());
            if *rate == BitsPerSec::ZERO {
                let message = format!("the rate given for the limit {name} from outside is zero");
                let help = "a rate of zero would hold its packets forever";
                self.diagnostics.push(SpannedDiagnostic::new(Code::ZeroRate, place, message, help));
            } else if !found && graph.complete {
                let message =
                    format!("a rate is given from outside for {name}, but the policy has no such limit");
                let help = "name a limit, such as `T1[10.0.1.0/24]`, or a node of limits, such as `T1`";
                self.diagnostics.push(SpannedDiagnostic::new(Code::UnknownLimit, place, message, help));
            }
        }
    }

    /// Puts the limits of ports between the link and the root. Returns the new shape.
    fn limit_ports(
        &mut self,
        limits: &[LimitedPort],
        policy: &mut Policy,
        graph: &mut Graph,
    ) -> Option<Shape> {
        let mut branches = Vec::with_capacity(limits.len());
        for limit in limits {
            let Some(number) = port_number(&mut policy.ports, &limit.port) else {
                let message = format!("rules and limits name more than {PORTS_MAX} ports");
                let help = "limit several ports together by a class of the policy";
                let place = Span::default();
                self.diagnostics.push(SpannedDiagnostic::new(Code::TooManyPorts, place, message, help));
                return None;
            };
            let of = Region { to: None, port: Some(number) };
            let (rate, burst, label) = (limit.limit.rate, Some(limit.limit.burst), Some(limit.port.clone()));
            branches.push(Branch { of, rate, burst, span: Span::default(), label });
        }
        program::limit_root(graph, branches);
        graph.root.map(|root| Shape::new(graph, root))
    }

    /// Checks `bound N packets of x` and `latency T of x`: x must be a class, and have one of each only.
    fn check_bounds(&mut self, policy: &Policy, graph: &Graph) {
        self.check_classes("bound", policy.class_bounds.iter().map(|(class, _)| class), graph);
        self.check_classes("latency", policy.class_latencies.iter().map(|(class, _)| class), graph);
    }

    fn check_classes<'p>(
        &mut self,
        what: &str,
        classes: impl Iterator<Item = &'p Spanned<String>>,
        graph: &Graph,
    ) {
        let mut seen = BTreeSet::new();
        for class in classes {
            let name = quoted(&class.value);
            let found = match graph.names.get(&class.value) {
                None if !graph.complete => continue,
                None => {
                    let classes = graph.nodes[..=graph.classes].iter().map(|class| class.name.as_str());
                    build::unknown_name(class, nearest(&class.value, classes, &[]), "name a class")
                }
                Some(at) if graph.class_of(*at).is_none() => {
                    let help = match what {
                        "bound" => "bounds hold for classes; give one to each class below it",
                        _ => "latencies hold for classes; give one to each class below it",
                    };
                    SpannedDiagnostic::new(
                        Code::NotAClass,
                        class.span,
                        format!("{name} is not a class"),
                        help,
                    )
                }
                Some(_) if seen.insert(&class.value) => continue,
                Some(_) => {
                    let message = format!("the {what} of {name} is stated twice");
                    SpannedDiagnostic::new(
                        Code::StatedTwice,
                        class.span,
                        message,
                        "leave one of the lines out",
                    )
                }
            };
            self.diagnostics.push(found);
        }
    }

    /// Checks the graph as a whole and places `default`. Returns `None` when the graph cannot be compiled.
    fn check_graph(
        &mut self,
        graph: &mut Graph,
        uses: &[Use],
        link: Option<BitsPerSec>,
    ) -> Option<(Shape, DefaultPlace)> {
        let cycles = find_cycles(graph);
        let cyclic = !cycles.is_empty();
        self.diagnostics.extend(cycles);
        let root = graph.root.filter(|_| !cyclic && graph.complete)?;
        let mut shape = Shape::new(graph, root);
        let mut default = DefaultPlace::ByText;
        if !shape.reaches(graph, graph.classes) {
            default = DefaultPlace::ByCompiler;
            program::place_default(graph, uses);
            shape = Shape::new(graph, graph.root?);
        }
        if let Some(too_deep) = shape.check_levels(graph) {
            self.diagnostics.push(too_deep);
            return None;
        }
        self.diagnostics.extend(rules::check(graph, &shape));
        self.diagnostics.extend(rules::check_reached(graph, &shape));
        if let Some(link) = link {
            self.diagnostics.extend(rules::check_link(graph, &shape, link));
        }
        Some((shape, default))
    }
}
