//! The place of `weft_egress` at a port's egress: a filter at the clsact of the near end, before all others that were there. Other
//! programs may be before it, such as one that sets a mark. One that lets packets pass around it (`TC_ACT_OK`) is overtaken
//! by tcx, whose programs run before all filters.

use super::{Doorbells, PROGRAM};
use weft_host::bpf::{self, BpfError, FilterId};
use weft_host::link::{LinkError, Numbered};
use weft_host::netns::NetNsError;
use weft_host::tc::{self, FilterFound, Handle, TcDevice, TcError};

/// Errors from looking at a port's egress, or from taking a place there.
#[derive(Debug, thiserror::Error)]
pub enum EgressError {
    /// A program.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// The filters.
    #[error(transparent)]
    Filter(#[from] TcError),
    /// The near end.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// Its namespace.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
}

/// The programs at a port's egress.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Egress {
    /// Whether `weft_egress` is there.
    pub(crate) attached: bool,
    /// The programs and filters that run before it.
    pub(crate) before: Vec<String>,
}

/// The id of a filter's program.
fn id_of(filter: &FilterFound) -> Option<u32> {
    filter.program.as_ref().map(|program| program.id)
}

/// The words for a filter.
fn words(filter: &FilterFound) -> String {
    let name = filter.program.as_ref().map_or(&filter.kind, |program| &program.name);
    format!("{name} (filter of priority {})", filter.priority)
}

/// The words for a tcx program.
fn words_of_tcx(id: u32) -> String {
    let name = bpf::program_info(id).map_or_else(|_| "a program".to_owned(), |info| info.name);
    format!("{name} (tcx program {id})")
}

/// The filters at the egress of `near` that packets of every kind meet, and its tcx programs.
fn read(near: &Numbered) -> Result<(Vec<FilterFound>, Vec<u32>), EgressError> {
    let (ns, link) = (near.namespace(), near.show()?);
    let mut filters = tc::filters(ns, &link.name, Handle::EGRESS)?;
    filters.retain(|filter| filter.chain == 0 && filter.handle != 0);
    Ok((filters, ns.run(|| bpf::tcx_egress(link.index))??))
}

impl Doorbells {
    /// Looks at the egress of `near`.
    ///
    /// # Errors
    /// When the kernel refuses a query.
    pub(crate) fn look(&self, near: &Numbered) -> Result<Egress, EgressError> {
        let own = self.object.program_fd(PROGRAM)?.id();
        let (filters, tcx) = read(near)?;
        let of_tcx = tcx.iter().take_while(|id| **id != own).map(|id| words_of_tcx(*id));
        if tcx.contains(&own) {
            return Ok(Egress { attached: true, before: of_tcx.collect() });
        }
        let first = filters.iter().take_while(|filter| id_of(filter) != Some(own));
        let attached = filters.iter().any(|filter| id_of(filter) == Some(own));
        Ok(Egress { attached, before: of_tcx.chain(first.map(words)).collect() })
    }

    /// Attaches the program at the egress of `near`, with a clsact where it has no such qdisc: in the place of a former process's, or else
    /// before the filters that are there.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(crate) fn attach_at(&self, near: &Numbered) -> Result<(), EgressError> {
        let (filters, tcx) = read(near)?;
        let is_former = |filter: &&FilterFound| {
            let program = filter.program.as_ref();
            program.is_some_and(|program| program.name.starts_with(PROGRAM))
        };
        let place =
            |filter: &FilterFound| FilterId { handle: filter.handle, priority: filter.priority.into() };
        let former = filters.iter().find(is_former).map(place);
        let overtaken = |id: &&u32| bpf::program_info(**id).is_ok_and(|info| info.name == PROGRAM);
        let former_tcx = tcx.iter().find(overtaken);
        let index = near.show()?.index;
        near.namespace().run(|| {
            if let Some(former) = former_tcx {
                self.object.replace_tcx(PROGRAM, index, *former)?;
            }
            match former {
                Some(former) => self.object.replace_egress(PROGRAM, index, former),
                None => self.attach(index),
            }
        })??;
        Ok(())
    }

    /// Puts the program before all others at the egress of `near`: by tcx, or on a kernel without it by a priority before all.
    ///
    /// # Errors
    /// When the kernel refuses, or has no tcx and a filter has the first priority.
    pub(crate) fn put_first(&self, near: &Numbered) -> Result<(), EgressError> {
        let link = near.show()?;
        let Err(error) = near.namespace().run(|| self.object.attach_first(PROGRAM, link.index))? else {
            return Ok(());
        };
        let (filters, _) = read(near)?;
        let own = self.object.program_fd(PROGRAM)?.id();
        let former = filters.iter().find(|filter| id_of(filter) == Some(own));
        if filters.first().is_none_or(|filter| filter.priority <= 1) {
            return Err(error.into());
        }
        // The kernel chooses a priority before the first. Packets pass the new filter before the former is deleted.
        near.namespace().run(|| self.attach(link.index))??;
        if let Some(former) = former {
            TcDevice::open(near.namespace(), &link.name)?.delete_filter(
                Handle::EGRESS,
                former.priority,
                former.handle,
            )?;
        }
        Ok(())
    }
}
