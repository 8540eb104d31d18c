//! The texts of policies and of tenants' files that a scenario names: from its `[files]`, or from files beside it.
//!
//! Reading a scenario takes in every file that its policies name, so that a run needs no file. Policies are compiled here only to learn
//! these names: the run reports what is wrong in them.

use super::config::PolicyChange;
use core::cell::RefCell;
use std::collections::BTreeMap;
use weft_policy::{CompileOptions, FileError, FileText, Source, TenantFiles, Wanted, compile_with};
use weft_text::toml::{TomlItem, TomlTable};
use weft_text::{ParseError, quoted, steers};

/// The name of a policy whose text is in the scenario, in diagnostics.
pub(crate) const INLINE: &str = "policy";

/// Tenants' files among the texts of a scenario, relative to the folder of the file that names them.
pub(crate) struct Files<'a>(pub(crate) &'a BTreeMap<String, String>);

impl TenantFiles for Files<'_> {
    fn read(&self, wanted: Wanted<'_>) -> Result<FileText, FileError> {
        let name = beside(wanted.named_in, wanted.path);
        match self.0.get(&name) {
            Some(text) => Ok(FileText { text: text.clone(), name }),
            None => Err(FileError::Missing(name)),
        }
    }
}

/// Returns the path of a file that is relative to the folder of another.
pub(super) fn beside(file: &str, path: &str) -> String {
    match file.rfind('/') {
        Some(slash) if !path.starts_with('/') => format!("{}{path}", &file[..=slash]),
        _ => path.to_owned(),
    }
}

/// The text of a file by its path from the scenario's folder.
pub(super) type ReadFile<'a> = &'a mut dyn FnMut(&str) -> Result<String, FileError>;

/// The texts so far, and the source of others.
pub(super) struct Gathered<'a> {
    texts: RefCell<BTreeMap<String, String>>,
    read: RefCell<ReadFile<'a>>,
    /// The first file that cannot be read.
    failed: RefCell<Option<String>>,
}

impl<'a> Gathered<'a> {
    /// The texts of a file's `[files]`.
    pub(super) fn of(root: &TomlTable<'_>, read: ReadFile<'a>) -> Result<Self, ParseError> {
        let mut texts = BTreeMap::new();
        if let Some(item) = root.get("files") {
            for (span, item) in item.table("[files]")?.entries() {
                if item.key.is_empty() || item.key.contains(steers) {
                    let what = format!("{} is no path", quoted(item.key));
                    return Err(ParseError::new(
                        span,
                        what,
                        "write the path by which a policy names the file",
                    ));
                }
                texts.insert(item.key.to_owned(), item.text()?.to_owned());
            }
        }
        Ok(Self { texts: RefCell::new(texts), read: RefCell::new(read), failed: RefCell::new(None) })
    }

    /// The texts.
    pub(super) fn into_texts(self) -> BTreeMap<String, String> {
        self.texts.into_inner()
    }

    /// Takes in a policy that a table gives as text or by its path, with the files of its tenants.
    pub(super) fn policy(
        &self,
        table: &TomlTable<'_>,
        text: Option<&str>,
        path: Option<&str>,
    ) -> Result<(), ParseError> {
        match (text, table.get("policy"), path, table.get("policy_file")) {
            (Some(text), Some(item), _, _) => self.tenants(Source { name: INLINE, text }, &item),
            (None, _, Some(path), Some(item)) => {
                let text = self.file(path, &item)?;
                self.tenants(Source { name: path, text: &text }, &item)
            }
            _ => Ok(()),
        }
    }

    /// Takes in what a change names.
    pub(super) fn change(&self, table: &TomlTable<'_>, change: &PolicyChange) -> Result<(), ParseError> {
        if let (Some(path), Some(item)) = (&change.file, table.get("file")) {
            self.file(path, &item)?;
        }
        self.policy(table, change.policy.as_deref(), change.policy_file.as_deref())
    }

    /// Takes in a file that a key names.
    fn file(&self, path: &str, item: &TomlItem<'_>) -> Result<String, ParseError> {
        self.take(path).map_err(|error| {
            let what = format!("`{}`: {error}", item.key);
            item.error(
                what,
                "its path counts from the scenario file's folder; its text may also stand in [files]",
            )
        })
    }

    /// Takes in the files of a policy's tenants. One that is missing is a tenant without a file.
    fn tenants(&self, source: Source<'_>, item: &TomlItem<'_>) -> Result<(), ParseError> {
        if source.text.contains("tenant") {
            compile_with(source, self, &CompileOptions::default());
        }
        match self.failed.take() {
            Some(reason) => Err(item.error(
                format!("a file of a tenant cannot be read: {reason}"),
                "its path counts from the folder of the file that names it",
            )),
            None => Ok(()),
        }
    }

    fn take(&self, path: &str) -> Result<String, FileError> {
        if let Some(text) = self.texts.borrow().get(path) {
            return Ok(text.clone());
        }
        if path.is_empty() || path.contains(steers) {
            return Err(FileError::Unreadable(format!("{} is no path", quoted(path))));
        }
        let text = (*self.read.borrow_mut())(path)?;
        self.texts.borrow_mut().insert(path.to_owned(), text.clone());
        Ok(text)
    }
}

impl TenantFiles for Gathered<'_> {
    fn read(&self, wanted: Wanted<'_>) -> Result<FileText, FileError> {
        let name = beside(wanted.named_in, wanted.path);
        let read = self.take(&name).map(|text| FileText { name, text });
        if let Err(FileError::Unreadable(reason)) = &read {
            self.failed.borrow_mut().get_or_insert_with(|| reason.clone());
        }
        read
    }
}
