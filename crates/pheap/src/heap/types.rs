//! Checks whether a root has a type of the program: the same layout, or a layout that annotations cover.

use crate::error::{Error, Result};
use crate::heap::HeapInner;
use crate::heap::check::rule;
use crate::layout::desc::Desc;
use crate::layout::{Successor, successors};
use crate::region::Region;

impl HeapInner {
    /// Fails unless the root of `region`, which has this `name`, has the layout that `desc` describes. (In a
    /// read-only heap, the root may also have a layout whose values are, by the program's annotations, values
    /// of the described type.) Returns the number of the root's type.
    pub(crate) fn check_type(&self, region: &Region, name: &str, desc: &'static Desc) -> Result<u32> {
        let mut tables = self.tables.lock();
        let ty = region.ty();
        if tables.types.matches_type(ty, desc)? {
            return Ok(ty);
        }
        if tables.types.types[ty as usize].name == rule::UNFINISHED {
            return Err(Error::Unfinished { root: name.to_owned() });
        }
        let help = match successors(&tables.types.types, ty, desc, &[]) {
            // Nothing is written to a read-only heap, so the root of such a heap keeps its type.
            Ok(found) if are_values(&found) && self.is_read_only() => return Ok(ty),
            Ok(found) if are_values(&found) => {
                "the program's annotations cover this; open the root once more".to_owned()
            }
            Ok(_) => format!(
                "the program's annotations cover this, and objects have to be converted: `heap.evolve::<{}>({name:?}).run()?` does that",
                desc.name.as_str()
            ),
            Err(help) => help,
        };
        let difference = tables.types.difference(ty, desc)?.unwrap_or_default();
        Err(Error::TypeMismatch {
            root: name.to_owned(),
            difference: format!("{difference}\n  help: {help}"),
        })
    }
}

/// Returns whether each value of an old type is, byte for byte, a value of the successor of that type.
pub(crate) fn are_values(found: &[Successor]) -> bool {
    found.iter().all(|successor| successor.conversion.is_none())
}
