//! The same workloads in C on libpmemobj, which is PMDK's library of persistent objects: the programs of `benches/peers/pmdk`, built
//! when they are needed, and run so that they take turns with everything else.

mod build;
mod server;
mod variants;

use crate::{Case, Result, Setup};
use std::path::{Path, PathBuf};
use std::rc::Rc;

pub use variants::Extra;

/// The built program.
#[derive(Clone, Debug)]
pub struct Pmdk {
    program: Rc<Path>,
}

impl Pmdk {
    /// Builds the program in the directory `to`, unless it is there and newer than its sources. `None` if libpmemobj is not
    /// installed: standard error says so, once.
    pub fn find(to: &Path) -> Result<Option<Pmdk>> {
        Ok(build::program(to)?.map(|program: PathBuf| Pmdk { program: program.into() }))
    }

    /// The cases of one workload and size, a process each. None for workloads that have no program.
    pub(crate) fn cases(
        &self,
        setup: &Setup,
        bench: &'static str,
        n: u64,
        extra: Extra,
        quick: bool,
    ) -> Result<Vec<Case>> {
        let variants = variants::of(bench).iter().filter(|variant| n <= variant.largest(quick));
        let case = |variant: &variants::Variant| {
            let name = extra.apply(variant.name);
            let mut server = server::Server::start(&self.program, setup, bench, &name, n, extra.threads())?;
            Ok(Case::of_runs("pmdk", bench, name, n, move |passes| server.run(passes))
                .threads(extra.threads()))
        };
        variants.map(case).collect()
    }
}
