//! `pheap-redis`: see the library.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use clap::Parser;
use pheap_redis::clocks::Clocks;
use pheap_redis::config::Config;
use pheap_redis::data::{MOST_SHARDS, OpenError, SHARDS, SHARDS_OF_ONE, Settings, Store};
use pheap_redis::export::export;
use pheap_redis::import::{Imported, import};
use pheap_redis::link::Link;
use pheap_redis::logging;
use pheap_redis::metrics::Exporter;
use pheap_redis::net::{Listener, Worker};
use pheap_redis::ping::ping;
use pheap_redis::process::{self, End, PidFile};
use pheap_redis::server::{Server, now};

/// What `--help` says besides.
const HELP: &str = "\
Options are those of redis.conf, in a file or by --set: port, bind, unixsocket, requirepass, maxmemory, maxmemory-policy,
appendfsync, timeout, loglevel (debug, verbose, notice, warning), logfile (the standard output, unless one is given), pidfile,
tls-port, tls-cert-file, tls-key-file, tls-ca-cert-file, tls-auth-clients, tls-replication (if built with the feature `tls`)
and so on. CONFIG GET * tells all of them. An option of the file that is not known is logged, and does nothing.

SIGTERM and SIGINT end the server as SHUTDOWN does: what was done is answered, and the heap is closed. A second one ends it
at once. Neither that nor SIGKILL loses anything that was acknowledged.

Exit status: 0, or 1 if it could not begin, or had to end; the standard error output says why.";

/// A server that Redis clients use, and that does not forget: its data are a persistent heap.
#[derive(Parser, Debug)]
#[command(version, about, after_help = HELP)]
struct Arguments {
    /// A file of options, in the syntax of redis.conf.
    config: Option<PathBuf>,
    /// The heap: a file, which is made if there is none [default: dump.heap in `dir`].
    #[arg(long)]
    heap: Option<PathBuf>,
    /// When a write is durable.
    #[arg(long, value_enum, default_value_t = Durability::Disk)]
    durability: Durability,
    /// An RDB file, as Redis writes it (up to version 7.0): its keys and libraries are put in the heap, which must be empty. Then clients are served.
    #[arg(long, value_name = "FILE")]
    import: Option<PathBuf>,
    /// Writes an RDB file of the heap, which Redis (from version 7.0 on) loads, and serves no clients. No server may have the heap open: of one that is in use, SAVE makes a copy.
    #[arg(long, value_name = "FILE", conflicts_with = "import")]
    export: Option<PathBuf>,
    /// Follows a running server (Redis up to 7.0): its data replace those in the heap, and then all that it does is done here, too.
    #[arg(long, num_args = 2, value_names = ["HOST", "PORT"], conflicts_with_all = ["import", "export"])]
    replicaof: Option<Vec<String>>,
    /// Asks the server that runs with these options whether it answers, and ends: with 0 if it does. For those who watch over it.
    #[arg(long, conflicts_with_all = ["import", "export", "replicaof"])]
    ping: bool,
    /// Where to listen [default: 6379]. With 0, only at `unixsocket` or `tls-port`.
    #[arg(long)]
    port: Option<u16>,
    /// Where Prometheus collects figures, at /metrics, without a password; in protected mode, from this machine only [default: nowhere].
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<String>,
    /// Threads that serve clients [default: 1].
    #[arg(long)]
    threads: Option<usize>,
    /// Parts of a heap that is made, each with a lock of its own; one that exists keeps those that it has. Commands in a row for one part are one transaction, so fewer parts are faster for
    /// one thread that serves pipelines; several threads need many [default: 16 for one thread, 64 for several].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_SHARDS)))]
    shards: Option<u32>,
    /// Any other option, as in redis.conf: `--set 'requirepass secret'`.
    #[arg(long = "set", value_name = "OPTION VALUE")]
    options: Vec<String>,
}

#[derive(clap::ValueEnum, Debug, Clone, Copy)]
enum Durability {
    /// A log on a disk, synced as `appendfsync` says.
    Disk,
    /// Memory that outlives power: a file on a DAX file system.
    Pmem,
    /// A power failure may destroy the heap; the end of the process does not.
    Process,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pheap-redis: {error}");
            if logging::is_in_file() {
                tracing::error!("{error}");
            }
            ExitCode::FAILURE
        }
    }
}

/// The options, and names of those in the file that there are not.
fn options(arguments: &Arguments) -> Result<(Config, Vec<String>), Box<dyn std::error::Error>> {
    let (mut config, mut unknown) = (Config::default(), Vec::new());
    if let Some(path) = &arguments.config {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        unknown =
            config.read(&text).map_err(|(line, why)| format!("{}, line {line}: {why}", path.display()))?;
    }
    for option in &arguments.options {
        let unknown = config.read(option).map_err(|(_, why)| format!("--set '{option}': {why}"))?;
        if let [name, ..] = &unknown[..] {
            return Err(format!("--set '{option}': there is no option '{name}'").into());
        }
    }
    if let Some(port) = arguments.port {
        config.set("port", &port.to_string())?;
    }
    if let Some(master) = &arguments.replicaof {
        config.set("replicaof", &master.join(" ")).map_err(|why| format!("--replicaof: {why}"))?;
    }
    if let Some(metrics) = &arguments.metrics {
        config.set("metrics", metrics)?;
    }
    if let Some(threads) = arguments.threads {
        config.set("io-threads", &threads.to_string())?;
    }
    Ok((config, unknown))
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let (config, unknown) = options(arguments)?;
    if arguments.ping {
        return Ok(ping(&config)?);
    }
    let log_limit = config.int("auto-aof-rewrite-min-size") as u64;
    let settings = match arguments.durability {
        Durability::Pmem => Settings::Pmem,
        Durability::Process => Settings::Process,
        Durability::Disk => Settings::Log { policy: config.sync_policy(), log_limit },
    };
    let is_alone = config.int("io-threads") == 1;
    let shards = arguments.shards.unwrap_or(if is_alone { SHARDS_OF_ONE } else { SHARDS });
    let path = arguments.heap.clone().unwrap_or_else(|| PathBuf::from(config.text("dir")).join("dump.heap"));
    if let Some(file) = &arguments.export {
        if !path.exists() {
            return Err(format!("there is no heap {}", path.display()).into());
        }
        let store = Store::open(&path, settings, shards)?;
        let keys = export(&store, file)?;
        store.close()?;
        println!("pheap-redis: {keys} keys of {} were exported to {}", path.display(), file.display());
        return Ok(());
    }
    if config.is("daemonize") {
        return Err("daemonize: this server stays in the foreground, where systemd, Docker or a shell (`&`) watches over it; say `daemonize no`, and use `logfile` and `pidfile`".into());
    }
    logging::begin(&config)?;
    tracing::info!(pid = std::process::id(), "pheap-redis {} begins", env!("CARGO_PKG_VERSION"));
    for name in unknown {
        tracing::warn!("there is no option '{name}' here, so it does nothing");
    }
    let end = End::new()?;
    // Before the heap is opened, which may take long: what is in use is told at once.
    let listeners = Listener::all(&config)?;
    let link = Link::new(&config)?;
    let exporter = match config.text("metrics") {
        "" => None,
        address => Some(Exporter::new(address)?),
    };
    let store = open(&path, settings, shards)?;
    // Not before the heap is this process' own: the file may be another's that has it.
    let _pid_file = match config.text("pidfile") {
        "" => None,
        path => Some(PidFile::new(Path::new(path)).map_err(|error| {
            format!("pidfile {path}: {error}; give a path where this user may write, or none")
        })?),
    };
    let clocks = Clocks::new(&config, now());
    if let Some(file) = &arguments.import {
        let began = Instant::now();
        let Imported { keys, expired, empty, libraries } = import(&store, &clocks, file)?;
        tracing::info!(
            "{keys} keys and {libraries} libraries of {} were imported in {} ms; {expired} keys had expired, {empty} had no elements",
            file.display(),
            began.elapsed().as_millis(),
        );
    }
    let workers = (0..config.int("io-threads")).map(|_| Worker::new()).collect::<Result<Vec<_>, _>>()?;
    let mailboxes = workers.iter().map(Worker::mailbox).collect();
    let addresses: Vec<String> = listeners.iter().map(ToString::to_string).collect();
    let mut server = Server::new(store, config, mailboxes, pheap_redis::command::all().count());
    server.config_file = arguments.config.clone();
    server.role.set_thread(link.mailbox());
    server.clocks = clocks;
    pheap_redis::command::load_libraries(&server)?;
    pheap_redis::command::begin_replication(&server)?;
    // Whoever reads that it is there may ask it to end.
    end.begin();
    tracing::info!(threads = workers.len(), "clients connect to {}", addresses.join(", "));
    if let Some(exporter) = &exporter {
        tracing::info!("metrics are at http://{}/metrics", exporter.address()?);
    }
    process::notify("READY=1");
    serve(&server, workers, listeners, link, exporter, end)?;
    process::notify("STOPPING=1");
    let began = Instant::now();
    server.store.close()?;
    tracing::info!("all is in the heap, which was closed in {} ms", began.elapsed().as_millis());
    Ok(())
}

/// Bytes of stack of a thread that runs scripts. They may nest 200 calls of functions of C, see `sandbox.lua`. With
/// `string.gsub` these need 2 MiB; with `load`, each in the middle of a text that is nested 180 levels deep, up to 16.
const STACK: usize = 64 << 20;

/// Serves clients until the server is stopped.
fn serve(
    server: &Server,
    workers: Vec<Worker>,
    listeners: Vec<Listener>,
    link: Link,
    exporter: Option<Exporter>,
    end: End,
) -> std::io::Result<()> {
    thread::scope(|scope| {
        let no_more_signals = end.handle();
        scope.spawn(move || end.wait(server));
        if let Some(exporter) = exporter {
            scope.spawn(move || exporter.run(server));
        }
        scope.spawn(|| server.memory.run_collector(&server.store, &server.stopping));
        let builder = || thread::Builder::new().stack_size(STACK);
        let stop = |_: &std::io::Error| {
            server.stop();
            no_more_signals.close();
        };
        let link = builder().spawn_scoped(scope, move || {
            let _others = StopsOthers(server);
            link.run(server)
        });
        let link = link.inspect_err(&stop)?;
        let mut listeners = Some(listeners);
        let threads = workers
            .into_iter()
            .enumerate()
            .map(|(number, worker)| {
                let listeners = listeners.take().unwrap_or_default();
                builder().spawn_scoped(scope, move || {
                    let _others = StopsOthers(server);
                    worker.run(server, number, listeners)
                })
            })
            .chain([Ok(link)])
            .collect::<Result<Vec<_>, _>>()
            .inspect_err(stop)?;
        let results: Vec<_> = threads.into_iter().map(thread::ScopedJoinHandle::join).collect();
        no_more_signals.close();
        results
            .into_iter()
            .try_for_each(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// Opens the heap, and tells how long that took, and what there was to do.
fn open(path: &Path, settings: Settings, shards: u32) -> Result<Store, OpenError> {
    let (began, is_new) = (Instant::now(), !path.exists());
    let store = Store::open(path, settings, shards)?;
    let (took, heap) = (began.elapsed().as_millis(), store.heap().stats());
    tracing::info!(
        durability = ?store.heap().durability(),
        shards = store.shards().len(),
        bytes = heap.file_bytes,
        "{} was {} in {took} ms",
        path.display(),
        if is_new { "made" } else { "opened" },
    );
    if heap.replayed_records + heap.rolled_back_entries > 0 {
        tracing::info!(
            "it was not closed: {} records of its log were read, {} entries were taken back",
            heap.replayed_records,
            heap.rolled_back_entries,
        );
    }
    Ok(store)
}

/// A thread that ends lets the others end, also if it panics.
struct StopsOthers<'s>(&'s Server);

impl Drop for StopsOthers<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}
