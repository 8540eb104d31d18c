//! The compiler for a document: the files and users of the host, and the document's path.

use percent_encoding::percent_decode_str;
use weft_policy::cost::PolicyCost;
use weft_policy::{
    Compilation, CompileOptions, CompiledPolicy, Source, TenantFiles, Users, compile_with, price_with,
};

/// The sources that the compiler has beside an open text.
pub struct SourceHost<'a> {
    /// The files of tenants.
    pub files: &'a dyn TenantFiles,
    /// The users, by whose names policies test.
    pub users: Users,
}

/// The compiler, as `weft policy check` calls it for the file of a document.
#[derive(Clone, Copy)]
pub(crate) struct Compiler<'a> {
    host: &'a SourceHost<'a>,
    name: &'a str,
}

impl<'a> Compiler<'a> {
    /// The compiler for the document at `path`.
    pub(crate) fn new(host: &'a SourceHost<'a>, path: &'a str) -> Self {
        Self { host, name: path }
    }

    /// The document's name in diagnostics; others are of tenants' files.
    pub(crate) fn name(self) -> &'a str {
        self.name
    }

    pub(crate) fn compile(self, text: &str) -> Compilation {
        let options = CompileOptions { users: self.host.users.clone(), ..CompileOptions::default() };
        compile_with(Source { name: self.name, text }, self.host.files, &options)
    }

    /// A text without errors, with its price.
    pub(crate) fn priced(self, text: &str) -> Option<(CompiledPolicy, Option<PolicyCost>)> {
        let policy = self.compile(text).policy?;
        Some((policy, price_with(Source { name: self.name, text }, self.host.files, &[]).0))
    }
}

/// The path of a document's URI (RFC 8089), for files beside it. Another scheme has no files, and its whole text is the name.
pub(crate) fn path(uri: &str) -> String {
    let Some(encoded) = uri.strip_prefix("file://") else { return uri.to_owned() };
    percent_decode_str(encoded).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_decoded() {
        for (uri, expected) in [
            ("file:///a/b%20c.weft", "/a/b c.weft"),
            ("file:///%C3%A4%2", "/ä%2"),
            ("file:///100%", "/100%"),
            ("untitled:1", "untitled:1"),
        ] {
            assert_eq!(path(uri), expected);
        }
    }
}
