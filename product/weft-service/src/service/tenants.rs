//! The tenants of an uplink's policy: files attached, replaced and detached while it is in force.
//!
//! Every change is a change of the whole policy, in the steps of `uplink`. What users gave goes along with each new policy of the
//! operator's, and a file of theirs that does not fit it is done without, so that no tenant holds up the operator. In turn, a
//! tenant's change is refused if it would cost another tenant its file.

use super::{Caller, Uplink};
use crate::delegation::Delegation;
use crate::policy::{Outside, PolicyError, RefusedTenants, ServicePolicy};
use crate::tenants::{AllGiven, GivenFile, RefusalScope};
use weft_control::error::ControlError;
use weft_control::interface::{
    ChangeReply, ConfigTenant, ListTenantsReply, Request, StatusTenant, TenantFile, TenantName, TenantReply,
};
use weft_facts::diagnostic::PolicyDiagnostic;
use weft_facts::tenants::TenantOrigin;
use weft_policy::{Fallback, FileText, GivenFirst, Steps, Tenant, TenantTexts, is_below, is_given};

/// The longest name of a file, in bytes (`PATH_MAX`, linux/limits.h, is 4096).
const NAME_MAX: usize = 1024;
/// The longest file of a user who is not an administrator, in bytes: a NIC's 256 classes with 256 bytes each.
const TEXT_MAX: usize = 64 << 10;
/// The most text of all files of such a user, in bytes.
const TEXTS_MAX: usize = 4 * TEXT_MAX;
/// The most text of attached files in an answer of `Config`.
const SHOWN_MAX: usize = 4 << 20;
/// The most names in an error.
const NAMES_MAX: usize = 16;

/// A policy to put in force, with what users gave.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    /// The policy, compiled.
    pub(super) policy: ServicePolicy,
    given: AllGiven,
    /// The tenants that do without their files.
    refused: RefusedTenants,
    /// The files that have no place any more, one line each.
    lost: Vec<String>,
}

impl Wanted {
    /// The same, with tenants whose files were refused before.
    pub(super) fn without(mut self, mut refused: RefusedTenants) -> Self {
        refused.append(&mut self.refused);
        Self { refused, ..self }
    }
}

/// The action of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Action {
    Attach,
    Replace,
}

impl Uplink {
    /// The files that users gave, for a policy of the operator's that is loaded: a detached tenant has its file back, if the policy has one.
    pub(super) fn given_back(&self, operators: &ServicePolicy) -> AllGiven {
        let mut given = self.tenants.given();
        let texts = operators.tenant_texts();
        given.retain(|name, given| given.file.is_some() || !texts.0.contains_key(name));
        given
    }

    /// The policy of the operator's text with what users gave, where that fits.
    pub(super) fn with_given(
        &self,
        operators: &ServicePolicy,
        given: AllGiven,
        steps: Steps,
    ) -> Result<Wanted, ControlError> {
        if given.is_empty() {
            let (policy, refused) = (operators.clone(), RefusedTenants::new());
            return Ok(Wanted { policy, given, refused, lost: Vec::new() });
        }
        let known = given.clone();
        let wanted = self.compile_given(operators, given, &|tenant| is_given(&known, tenant), steps);
        wanted.map_err(|error| self.wrong(error))
    }

    /// Compiles the operator's text with what users gave. What has no place, or a place of another cgroup, is left out.
    fn compile_given(
        &self,
        operators: &ServicePolicy,
        mut given: AllGiven,
        yields: &dyn Fn(&str) -> bool,
        steps: Steps,
    ) -> Result<Wanted, PolicyError> {
        let (texts, mut lost) = (operators.tenant_texts(), Vec::new());
        loop {
            let files = GivenFirst { given: &given, file: |given| given.file.as_ref(), others: &texts };
            let fallback = Fallback { yields, good: &TenantTexts::default() };
            let outside = Outside { rate: operators.rate, port_limits: self.port_limits(), steps };
            let (policy, refused) = ServicePolicy::falling_back(
                &operators.name,
                operators.text.clone(),
                &files,
                outside,
                fallback,
            )?;
            let gone: Vec<(String, String)> = given
                .iter()
                .filter_map(|(name, given)| Some((name.clone(), lost_by(&policy, name, given)?)))
                .collect();
            if gone.is_empty() {
                return Ok(Wanted { policy, given, refused, lost });
            }
            for (name, line) in gone {
                given.remove(&name);
                lost.push(line);
            }
        }
    }

    /// Puts a policy of the operator's in force, with what users gave.
    pub(super) fn put_in_force(&mut self, wanted: Wanted) -> Result<ChangeReply, ControlError> {
        let Wanted { policy, given, refused, lost } = wanted;
        let before = self.policy.tenant_texts();
        let mut reply = self.replace(policy)?;
        self.settle(&given, &refused, &before);
        let told: Vec<String> = lost.into_iter().chain(self.refusals(&refused)).collect();
        told.iter().for_each(|line| self.log.warning(line));
        reply.warnings.extend(told);
        Ok(reply)
    }

    /// Takes a policy that an uplink without a data path has with its next start.
    pub(super) fn take(&mut self, wanted: Wanted) {
        let before = self.policy.tenant_texts();
        self.policy = wanted.policy;
        self.settle(&wanted.given, &wanted.refused, &before);
    }

    /// Follows the policy in force, which the operator's files gave.
    pub(super) fn settle(&mut self, given: &AllGiven, refused: &RefusedTenants, before: &TenantTexts) {
        self.tenants.settle(&self.policy, given, refused, (before, RefusalScope::All));
        self.remember();
    }

    /// A line for each tenant that does without its file.
    fn refusals(&self, refused: &RefusedTenants) -> Vec<String> {
        let line = |(tenant, error): (&String, &String)| {
            let has = self.tenant(tenant).and_then(|of| of.file.as_ref());
            let keeps =
                has.map_or("is one FIFO".to_owned(), |file| format!("keeps its last good {}", file.name));
            format!("tenant {tenant} {keeps}: {error}")
        };
        refused.iter().map(line).collect()
    }

    pub(super) fn tenant(&self, name: &str) -> Option<&Tenant> {
        self.policy.tenants.iter().find(|tenant| tenant.name == name)
    }

    /// The tenant of this name, for a caller.
    pub(super) fn known_tenant(&self, name: &str) -> Result<&Tenant, ControlError> {
        let names = || self.policy.tenants.iter().map(|tenant| tenant.name.clone()).take(NAMES_MAX).collect();
        self.tenant(name)
            .ok_or_else(|| ControlError::NoSuchTenant { tenant: name.to_owned(), tenants: names() })
    }

    pub(super) fn attach(&mut self, of: TenantFile, caller: Caller) -> Result<TenantReply, ControlError> {
        self.give(of, Action::Attach, caller)
    }

    pub(super) fn replace_file(
        &mut self,
        of: TenantFile,
        caller: Caller,
    ) -> Result<TenantReply, ControlError> {
        self.give(of, Action::Replace, caller)
    }

    fn give(&mut self, of: TenantFile, action: Action, caller: Caller) -> Result<TenantReply, ControlError> {
        let TenantFile { tenant, name, text, generation, uplink: _ } = of;
        let has = self.known_tenant(&tenant)?.file.as_ref().map(|file| file.name.clone());
        // The name is shown to others.
        if name.is_empty() || name.len() > NAME_MAX || name.contains(char::is_control) {
            let parameter = format!("name: 1 to {NAME_MAX} bytes without control characters");
            return Err(ControlError::InvalidParameter { parameter });
        }
        match (action, has) {
            (Action::Attach, Some(file)) => return Err(ControlError::TenantHasFile { tenant, file }),
            (Action::Replace, None) => return Err(ControlError::TenantHasNoFile { tenant }),
            _ => {}
        }
        self.check_generation(generation)?;
        self.check_size(&tenant, &text, caller)?;
        self.change_tenant(&tenant, Some(FileText { name, text }), caller)
    }

    /// Checks the size of a user's file, alone and with the user's others. The daemon keeps them all.
    fn check_size(&self, tenant: &str, text: &str, caller: Caller) -> Result<(), ControlError> {
        let given = self.tenants.given();
        let others = given.iter().filter(|(name, given)| given.uid == caller.uid && *name != tenant);
        let others: usize =
            others.filter_map(|(_, given)| given.file.as_ref()).map(|file| file.text.len()).sum();
        let (bytes, all) = (text.len(), others + text.len());
        let parameter = match caller.is_admin {
            false if bytes > TEXT_MAX => format!("text: {bytes} bytes, of {TEXT_MAX} for a user's file"),
            false if all > TEXTS_MAX => {
                format!("text: {all} bytes with the other files of this user, of {TEXTS_MAX} in all")
            }
            _ => return Ok(()),
        };
        Err(ControlError::InvalidParameter { parameter })
    }

    /// The reason that `caller` is not the one to whom the tenant `name` is delegated, if so.
    fn not_delegated(
        &self,
        name: &str,
        caller: Caller,
        delegation: fn(&str) -> Delegation,
    ) -> Option<String> {
        // Of a tenant that there is not, nothing is changed.
        let Some(cgroup) = &self.tenant(name)?.cgroup else {
            return Some(format!("tenant {name} is restricted to no cgroup that could be delegated"));
        };
        match delegation(cgroup) {
            Delegation::To(uid) if uid == caller.uid => None,
            Delegation::To(uid) => {
                Some(format!("its cgroup {cgroup} belongs to user {uid}, not to {}", caller.uid))
            }
            Delegation::Nobody => Some(format!(
                "its cgroup {cgroup} is delegated to nobody: the directory and cgroup.procs need one owner"
            )),
            Delegation::Missing => Some(format!("its cgroup {cgroup} does not exist")),
        }
    }

    pub(super) fn detach(&mut self, of: TenantName, caller: Caller) -> Result<TenantReply, ControlError> {
        let TenantName { tenant, generation, uplink: _ } = of;
        if self.known_tenant(&tenant)?.file.is_none() {
            return Err(ControlError::TenantHasNoFile { tenant });
        }
        self.check_generation(generation)?;
        self.change_tenant(&tenant, None, caller)
    }

    /// Gives `tenant` a file, or takes it away.
    fn change_tenant(
        &mut self,
        tenant: &str,
        file: Option<FileText>,
        caller: Caller,
    ) -> Result<TenantReply, ControlError> {
        let before = self.policy.diagnostics.clone();
        match self.try_change(tenant, file, caller) {
            Ok((plan, lost)) => {
                let mut reply = self.tenant_reply(tenant, plan)?;
                let place = |of: &PolicyDiagnostic| (of.file.clone(), of.line, of.column, of.code.clone());
                reply.diagnostics.retain(|new| !before.iter().any(|was| place(was) == place(new)));
                let (state, generation) = (reply.tenant.in_force(), self.generation);
                self.log.notice(&format!("tenant {tenant}: {state}, generation {generation}"));
                reply.warnings.extend(lost);
                Ok(reply)
            }
            Err(error) => {
                self.tenants.refuse(tenant, error.to_string());
                self.remember();
                let ControlError::PolicyRefused { generation, diagnostics } = error else {
                    return Err(error);
                };
                let keeps = self.tenant(tenant).and_then(|of| of.file.as_ref()).map(|file| file.name.clone());
                let diagnostics = diagnostics.into_iter().filter(|of| of.severity == "error").collect();
                Err(ControlError::TenantRefused { generation, tenant: tenant.to_owned(), keeps, diagnostics })
            }
        }
    }

    /// Changes the policy in force in one tenant and what is below it. Returns the changes, and what has lost its place.
    fn try_change(
        &mut self,
        tenant: &str,
        file: Option<FileText>,
        caller: Caller,
    ) -> Result<(ChangeReply, Vec<String>), ControlError> {
        let place = self.known_tenant(tenant)?;
        let cgroup = place.cgroup.clone().filter(|_| !caller.is_admin);
        let before = self.policy.tenant_texts();
        let mut given = self.tenants.given();
        given.insert(tenant.to_owned(), GivenFile { uid: caller.uid, cgroup, file });
        // Files of others that did not fit are not tried again here: they would refuse this one.
        let (given, rest): (AllGiven, AllGiven) = given.into_iter().partition(|(name, given)| {
            name == tenant || is_below(name, tenant) || before.0.get(name) == given.file.as_ref()
        });
        let below = |name: &str| is_below(name, tenant);
        let wanted = self.compile_given(&self.policy, given, &below, self.steps_for(caller));
        let wanted = wanted.map_err(|error| self.wrong(error))?;
        let Wanted { policy, mut given, refused, mut lost } = wanted;
        let plan = self.exchange(policy)?;
        given.extend(rest);
        self.tenants.settle(&self.policy, &given, &refused, (&before, RefusalScope::One(tenant)));
        self.remember();
        lost.extend(self.refusals(&refused));
        Ok((self.change_reply(&self.policy, plan), lost))
    }

    fn tenant_reply(&self, tenant: &str, change: ChangeReply) -> Result<TenantReply, ControlError> {
        let ChangeReply { generation, policy_hash, steps, warnings, diagnostics, uplink: _ } = change;
        let tenant = self.status_tenant(self.known_tenant(tenant)?);
        Ok(TenantReply { generation, policy_hash, tenant, steps, warnings, diagnostics })
    }

    fn status_tenant(&self, tenant: &Tenant) -> StatusTenant {
        self.tenants.status(tenant, self.config.name.as_ref())
    }

    /// The state of each tenant.
    pub(super) fn status_tenants(&self) -> Vec<StatusTenant> {
        self.policy.tenants.iter().map(|tenant| self.status_tenant(tenant)).collect()
    }

    /// The tenants for `Config`, with the texts of attached files as far as there is room.
    pub(super) fn config_tenants(&self) -> Vec<ConfigTenant> {
        let mut left = SHOWN_MAX;
        let tenant = |tenant: &Tenant| {
            let StatusTenant { tenant: name, file, hash, origin, owner_uid, .. } = self.status_tenant(tenant);
            let attached = tenant.file.as_ref().filter(|_| origin == TenantOrigin::Attached);
            let shown = attached.filter(|file| file.text.len() <= left);
            left -= shown.map_or(0, |file| file.text.len());
            let text = shown.map(|file| file.text.clone());
            ConfigTenant { tenant: name, file, hash, origin, owner_uid, text }
        };
        self.policy.tenants.iter().map(tenant).collect()
    }

    /// Whether the configured policy is in force, but for what users gave.
    pub(super) fn is_default(&self) -> bool {
        let given = self.tenants.given();
        let operators = |policy: &ServicePolicy| {
            let mut texts = policy.tenant_texts();
            texts.0.retain(|name, _| !is_given(&given, name));
            texts
        };
        self.policy.hash == self.default.hash && operators(&self.policy) == operators(&self.default)
    }
}

/// The reason why what was given to the tenant `name` has no place in `policy`, if so.
fn lost_by(policy: &ServicePolicy, name: &str, given: &GivenFile) -> Option<String> {
    let what = given.file.as_ref().map_or("a detach".to_owned(), |file| file.name.clone());
    let Some(tenant) = policy.tenants.iter().find(|tenant| tenant.name == name) else {
        return Some(format!(
            "the policy has no tenant {name} any more: {what} of user {} is forgotten",
            given.uid
        ));
    };
    let moved = given.cgroup.as_ref().is_some_and(|cgroup| tenant.cgroup.as_ref() != Some(cgroup));
    moved.then(|| format!("tenant {name} has another cgroup now: {what} of user {} is forgotten", given.uid))
}

impl super::DaemonService {
    /// The reason that `caller` may not change the tenant of `request` without a question, if so.
    pub(crate) fn not_delegated(&mut self, request: &Request, caller: Caller) -> Option<String> {
        let (tenant, uplink) = match request {
            Request::AttachTenant(of) | Request::ReplaceTenant(of) => (&of.tenant, &of.uplink),
            Request::DetachTenant(of) => (&of.tenant, &of.uplink),
            _ => return Some("only root may".to_owned()),
        };
        let delegation = self.surroundings.delegation;
        // Where there is no such uplink, nothing is changed.
        self.one(uplink.as_deref()).ok()?.not_delegated(tenant, caller, delegation)
    }

    pub(super) fn list_tenants(&self, name: Option<&str>) -> Result<ListTenantsReply, ControlError> {
        let at = name.map(|name| self.place(Some(name))).transpose()?;
        let of = self.uplinks.iter().enumerate().filter(|(place, _)| at.is_none_or(|at| at == *place));
        let tenants = of.flat_map(|(_, uplink)| uplink.status_tenants()).collect();
        let generation = at.and_then(|at| self.uplinks.get(at)).map_or(self.generation(), Uplink::generation);
        Ok(ListTenantsReply { generation, tenants })
    }
}
