//! The grammar of tenants: the clause that names a tenant's file, its packets and its quotas.

use super::grammar::{braces, condition, value};
use super::kind::SyntaxKind::*;
use super::mistakes;
use super::parser::{Parsed, Parser};
use weft_text::nearest;

/// The words of quotas that have a number or a time.
pub(crate) const QUOTAS: [&str; 10] =
    ["classes", "nodes", "limits", "flows", "cgroups", "ports", "rows", "masks", "entries", "cost"];
/// The word of a tenant whose packets' claims count above it, too.
pub(crate) const TRUST: &str = "trust";

const HELP: &str = "such as `vm1 = tenant \"vm1.weft\" of cgroup \"/vm1\" { classes 64, cost 60ns }`";
const QUOTAS_HELP: &str = "a quota is one of: classes N, nodes N, limits N, flows N, cgroups N, ports N, rows N, masks N, \
                           entries N, cost TIME; or `trust`";

/// Whether a tenant begins at the cursor. The word is not reserved; a text in quotes behind it is in no other expression.
pub(super) fn at_tenant(p: &Parser<'_>) -> bool {
    p.at_word("tenant") && p.next_is(Text)
}

/// `tenant = "tenant" TEXT "of" condition [ "{" quota { "," quota } [ "," ] "}" ]`
pub(super) fn tenant(p: &mut Parser<'_>) -> Parsed {
    p.bump();
    p.bump();
    mistakes::word(p, "of", HELP)?;
    condition(p)?;
    if p.at(OpenBrace) { braces(p, QuotaItem, quota) } else { Ok(()) }
}

/// `quota = ( "classes" | "nodes" | "limits" | "flows" | "cgroups" | "ports" | "rows" | "masks" | "entries" ) NUMBER
///        | "cost" TIME | "trust"`
fn quota(p: &mut Parser<'_>) -> Parsed {
    if p.eat_word(TRUST) {
        return Ok(());
    }
    if !p.at(Word) {
        return p.unexpected("a quota", QUOTAS_HELP);
    }
    if !QUOTAS.contains(&p.text()) {
        let Some(meant) = nearest(p.text(), QUOTAS.into_iter().chain([TRUST]), &[]) else {
            return p.unexpected("a quota", QUOTAS_HELP);
        };
        p.correct("a quota", meant, QUOTAS_HELP);
        if meant == TRUST {
            p.bump();
            return Ok(());
        }
    }
    p.bump();
    value(p, "a number or a time", QUOTAS_HELP)
}
