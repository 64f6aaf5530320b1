//! The same workloads in C on libpmemobj, PMDK's library of persistent objects: the programs of
//! `benches/peers/pmdk`. They are built when they are needed, and take turns with all other cases.

mod build;
mod variants;

use crate::measure::Checksum;
use crate::server::Server;
use crate::{Case, Result, Sample, Setup};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

pub use variants::Extra;

/// The built program.
#[derive(Clone, Debug)]
pub struct Pmdk {
    program: Rc<Path>,
}

impl Pmdk {
    /// Builds the program in the directory `to`, unless it is there and newer than its sources. Returns
    /// `None` if libpmemobj is not installed, and says so once on standard error.
    pub fn find(to: &Path) -> Result<Option<Pmdk>> {
        Ok(build::program(to)?.map(|program: PathBuf| Pmdk { program: program.into() }))
    }

    /// Returns the cases of one workload and size, each with a process. Returns none for workloads that have
    /// no program.
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
            let (dir, threads) = (setup.folder()?, extra.threads());
            let mut command = Command::new(&*self.program);
            command
                .args(["--serve", "1", "--threads", &threads.to_string(), bench, &name, &n.to_string()])
                .env("PHEAP_BENCH_DIR", dir.path())
                // Otherwise libpmem would call `msync` on file systems without DAX.
                .env("PMEM_IS_PMEM_FORCE", "1");
            let mut server = Server::start(&mut command, dir)?;
            Ok(Case::of_runs("pmdk", bench, name, n, move |passes| run(&mut server, passes)).threads(threads))
        };
        variants.map(case).collect()
    }
}

/// Runs `passes` repetitions.
fn run(server: &mut Server, passes: u64) -> Result<Sample> {
    let answer = server.ask(&passes.to_string())?;
    let seconds = answer["seconds"].as_f64().ok_or("an answer has seconds")?;
    let checksum = match &answer["checksum"] {
        sum if sum.is_u64() => sum.as_u64().map(|sum| Checksum::Int(sum.into())),
        sum if sum.is_i64() => sum.as_i64().map(|sum| Checksum::Int(sum.into())),
        sum => sum.as_f64().map(Checksum::Float),
    };
    Ok(Sample { seconds, checksum, ..Sample::default() })
}
