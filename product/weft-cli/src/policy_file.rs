//! Policies from files, and their diagnostics.

use crate::failure::Reported;
use crate::output;
use anyhow::anyhow;
use std::io::{IsTerminal, Read};
use std::path::Path;
use weft_control::interface::TenantText;
use weft_policy::promise::{Refusal, refused_with};
use weft_policy::syntax::TEXT_MAX;
use weft_policy::{
    Code, Compilation, CompileOptions, CompiledPolicy, Diagnostic, Fallback, FileText, Source, Style, Tenant,
    TenantTexts, compile_with, compile_with_fallback, decode, render,
};
use weft_run::place::{Answer, Place};
use weft_run::tenant_files::Beside;
use weft_titan::host_users::host_users;

/// Options with this host's users.
fn with_users(options: &CompileOptions) -> CompileOptions {
    let users = host_users();
    CompileOptions { users, ..options.clone() }
}

/// The diagnostic in a line, with what to do.
pub fn with_cure(found: &Diagnostic) -> String {
    format!("{}; {}", found.one_line(), found.help)
}

/// A policy's text and its name.
#[derive(Clone, Debug)]
pub struct PolicyText {
    /// The name in diagnostics.
    pub name: String,
    /// The text.
    pub text: String,
}

impl PolicyText {
    /// Reads the file at `path`.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let name = path.display().to_string();
        let file = std::fs::File::open(path).map_err(|e| anyhow!("cannot read the policy {name}: {e}"))?;
        Self::read_from(file, name)
    }

    /// Reads standard input.
    pub fn from_stdin() -> anyhow::Result<Self> {
        Self::read_from(std::io::stdin().lock(), "-".to_owned())
    }

    /// Reads up to the size limit of a policy: the source may be a wrong one, or an endless device.
    fn read_from(source: impl Read, name: String) -> anyhow::Result<Self> {
        let mut bytes = Vec::new();
        let read = source.take(TEXT_MAX as u64 + 1).read_to_end(&mut bytes);
        read.map_err(|e| anyhow!("cannot read the policy {name}: {e}"))?;
        if bytes.len() > TEXT_MAX {
            let code = Code::TooLarge.as_str();
            return Err(anyhow!(
                "{name}: error[{code}]: the file has more than {TEXT_MAX} bytes; check that this is the right file"
            ));
        }
        let text = decode(&name, bytes).map_err(|error| anyhow!("{}; {}", error.one_line(), error.help))?;
        Ok(Self { name, text })
    }

    /// Returns a policy that is compiled into the program.
    pub fn built_in(name: &str, text: &str) -> Self {
        Self { name: name.to_owned(), text: text.to_owned() }
    }

    /// Compiles the policy, with this host's users.
    pub fn compile(&self, options: &CompileOptions) -> Compilation {
        compile_with(Source { name: &self.name, text: &self.text }, &Beside, &with_users(options))
    }

    /// The files of the policy's tenants, for a daemon, which reads none itself.
    pub fn tenants(&self) -> Vec<TenantText> {
        let tenants = self.compile(&CompileOptions::default()).tenants;
        let file = |of: Tenant| {
            let FileText { name, text } = of.file?;
            Some(TenantText { tenant: of.name, name, text })
        };
        tenants.into_iter().filter_map(file).collect()
    }

    /// Compiles the policy, and prints its diagnostics to standard error.
    pub fn load(&self, options: &CompileOptions) -> anyhow::Result<CompiledPolicy> {
        Ok(self.load_whole(options)?.0)
    }

    /// Compiles the policy with its tenants, and prints its diagnostics to standard error.
    pub fn load_whole(&self, options: &CompileOptions) -> anyhow::Result<(CompiledPolicy, Vec<Tenant>)> {
        self.told(self.compile(options))
    }

    /// Compiles the policy with its tenants, as [`load_whole`](Self::load_whole). A tenant whose file is refused has the one of `good`, or
    /// none, which a warning says.
    pub fn load_around(
        &self,
        options: &CompileOptions,
        good: &TenantTexts,
    ) -> anyhow::Result<(CompiledPolicy, Vec<Tenant>)> {
        let source = Source { name: &self.name, text: &self.text };
        let fallback = Fallback { yields: &|_| true, good };
        let (compilation, refused) = compile_with_fallback(source, &Beside, &with_users(options), fallback)
            .map_err(|error| anyhow!("{}: {error}", self.name))?;
        for (tenant, error) in &refused {
            let file =
                compilation.tenants.iter().find(|of| of.name == *tenant).and_then(|of| of.file.as_ref());
            let keeps =
                file.map_or("is one FIFO".to_owned(), |file| format!("keeps its last good {}", file.name));
            output::warn(&format!("tenant {tenant} {keeps}: {}", error.one_line()));
        }
        self.told(compilation)
    }

    /// Asks `place` about this text, which compiles to `policy` on this host.
    pub fn ask(&self, place: Place, policy: &CompiledPolicy) -> Answer {
        place.ask(policy, (Source { name: &self.name, text: &self.text }, &Beside))
    }

    /// The refusal of this text by a place, as an error at its place in the text.
    pub fn refusal(&self, title: &str, refusal: &Refusal) -> Option<Diagnostic> {
        let source = Source { name: &self.name, text: &self.text };
        refused_with(source, &Beside, &with_users(&CompileOptions::default()), (title, refusal))
    }

    /// Prints the refusal of this text by `place` to standard error: the error of a command.
    pub fn refused_by(&self, place: Place, refusal: &Refusal) -> anyhow::Error {
        let Some(found) = self.refusal(place.title(), refusal) else {
            return anyhow!("{}; {}", refusal.reason, refusal.instead);
        };
        let pretty = std::io::stderr().is_terminal();
        let style = output::stderr_style();
        output::message(&if pretty { self.drawn(&[found], true, style) } else { with_cure(&found) });
        Reported.into()
    }

    /// Prints the diagnostics of a compilation of this text to standard error.
    fn told(&self, compilation: Compilation) -> anyhow::Result<(CompiledPolicy, Vec<Tenant>)> {
        let pretty = std::io::stderr().is_terminal();
        let text = self.diagnostics(&compilation, pretty, output::stderr_style());
        if !text.is_empty() {
            output::message(text.trim_end());
        }
        let policy = compilation.policy.ok_or(Reported)?;
        Ok((policy, compilation.tenants))
    }

    /// Returns the diagnostics as text: with the source lines if `pretty`, otherwise one line each.
    pub fn diagnostics(&self, compilation: &Compilation, pretty: bool, style: Style) -> String {
        let one = |d: &Diagnostic| {
            let files = compilation.tenants.iter().filter_map(|tenant| tenant.file.as_ref());
            let file = files.into_iter().find(|file| file.name == d.file && file.name != self.name);
            let text = file.map_or(&self.text, |file| &file.text);
            if pretty { render(d, text, style) + "\n" } else { d.one_line() }
        };
        compilation.diagnostics.iter().map(|d| one(d) + "\n").collect()
    }

    /// Returns diagnostics of this text alone as text, like [`Self::diagnostics`].
    pub fn drawn(&self, diagnostics: &[Diagnostic], pretty: bool, style: Style) -> String {
        let one = |d| if pretty { render(d, &self.text, style) + "\n" } else { d.one_line() };
        diagnostics.iter().map(|d| one(d) + "\n").collect()
    }
}
