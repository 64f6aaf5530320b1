//! Whether a root is of a type of the program: it has that, or its own can be taken for it.

use crate::error::{Error, Result};
use crate::heap::HeapInner;
use crate::heap::check::rule;
use crate::layout::desc::Desc;
use crate::layout::{Accepted, accept};
use crate::region::Region;
use crate::store::Tables;

impl HeapInner {
    /// Fails unless the root of `region` has the layout that `desc` describes. Returns the number of that.
    pub(crate) fn check_type(&self, region: &Region, name: &str, desc: &'static Desc) -> Result<u32> {
        let mut tables = self.tables.lock();
        let ty = region.ty();
        if tables.types.is(ty, desc)? {
            return Ok(ty);
        }
        let help = match acceptable(&tables, ty, desc) {
            // Nobody writes anything, so the heap need not be told.
            Ok(_) if self.is_read_only() => return Ok(ty),
            Ok(_) => "the program's annotations cover this; open the root once more".to_owned(),
            Err(help) => help,
        };
        let difference = tables.types.difference(ty, desc)?.unwrap_or_default();
        Err(Error::TypeMismatch {
            root: name.to_owned(),
            difference: format!("{difference}\n  help: {help}"),
        })
    }
}

/// What the objects of a root of type `ty` are in the program, if they can be taken for that as they are; else what would help.
pub(crate) fn acceptable(tables: &Tables, ty: u32, desc: &'static Desc) -> Result<Accepted, String> {
    let types = &tables.types.types;
    let accepted = accept(types, ty, desc)?;
    if rule::has_versions(&types[ty as usize]) {
        return Err("versions of a root that is a `PSnapMap` are kept, so its type cannot change in place; `Heap::migrate` makes a new root from the old one".to_owned());
    }
    Ok(accepted)
}
