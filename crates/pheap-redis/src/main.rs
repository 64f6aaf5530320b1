//! The server `pheap-redis`: parses its arguments, starts the threads, and opens and closes the heap.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use clap::{CommandFactory, Parser};
use pheap_redis::config::{CommandLine, Config, ConfigReader, GivenOption, OptionForm};
use pheap_redis::copies::export::export;
use pheap_redis::copies::import::{ImportCounts, RedisFiles, import};
use pheap_redis::data::{MOST_SHARDS, OpenError, SHARDS, SHARDS_OF_ONE, Settings, Store, explained};
use pheap_redis::link::Link;
use pheap_redis::metrics::Exporter;
use pheap_redis::net::{Listener, Worker};
use pheap_redis::process::descriptors;
use pheap_redis::process::logging;
use pheap_redis::process::ping::ping;
use pheap_redis::process::{self, PidFile, StopSignals};
use pheap_redis::scripts;
use pheap_redis::server::clocks::Clocks;
use pheap_redis::server::{Server, now};

/// The text of `--help` behind the arguments.
const HELP: &str = "\
The server takes options of redis.conf from the file CONFIG, from the standard input (if the first or the
last argument is `-`), and from the command line, either as for redis-server (`--port 7000 --bind 127.0.0.1`)
or with --set (`--set 'port 7000'`). The command line overrides the standard input, and the standard input
overrides the file. Options are port, bind, unixsocket, requirepass, maxmemory, maxmemory-policy, appendfsync,
replicaof, timeout, loglevel (debug, verbose, notice, warning), logfile (default: the standard output),
pidfile, metrics (ADDRESS:PORT, where Prometheus collects figures at /metrics without a password) and others;
CONFIG GET * lists all. A server that was built with the feature `tls` also has tls-port, tls-cert-file,
tls-key-file, tls-ca-cert-file, tls-auth-clients, tls-protocols and tls-replication.

When the server starts, it lists the options of Redis that have no effect here. An option that protects
something in Redis, and that this server does not support (user, rename-command and others), refuses the
start.

SIGTERM and SIGINT end the server as SHUTDOWN does: it sends the replies of all commands that it has run, and
closes the heap. A second signal ends it at once. Neither a second signal nor SIGKILL loses a write that was
acknowledged.

Exit status: 0 if all went well; 1 if the server could not start, or an error has ended it; 2 if an argument
is unknown, or one of those above has an invalid value. The standard error output says why.";

/// A server that Redis clients use, and that does not forget: its data are a persistent heap.
#[derive(Parser, Debug)]
#[command(version, about, after_help = HELP)]
struct Arguments {
    /// A file of options, in the syntax of redis.conf.
    config: Option<PathBuf>,
    /// The file of the heap. The server creates it if it does not exist [default: dump.heap in `dir`].
    #[arg(long)]
    heap: Option<PathBuf>,
    /// When a write is durable.
    #[arg(long, value_enum, default_value_t = Durability::Disk)]
    durability: Durability,
    /// Allows `--durability pmem` on a file system that is neither DAX nor tmpfs. There, a power failure may
    /// destroy the heap.
    #[arg(long)]
    without_dax: bool,
    /// Imports an RDB file of Redis (up to version 7.0) into the heap, which must be empty: its keys and its
    /// function libraries. Then the server serves clients. With `auto`, it imports the RDB file that a Redis
    /// has left in `dir`, if there is one and the heap is empty.
    #[arg(long, value_name = "FILE|auto")]
    import: Option<PathBuf>,
    /// Writes the heap to a new RDB file, which Redis loads from version 7.0 on, and ends. No server may have
    /// the heap open; if one has, let it make a copy with SAVE, and export the copy.
    #[arg(long, value_name = "FILE", conflicts_with = "import")]
    export: Option<PathBuf>,
    /// Checks whether the server with these options answers, and ends: with status 0 if it does. Supervisors
    /// use it as a health check.
    #[arg(long, conflicts_with_all = ["import", "export"])]
    ping: bool,
    /// Number of threads that serve clients, as the option io-threads [default: 1].
    #[arg(long)]
    threads: Option<usize>,
    /// Number of shards of a new heap, each with its own lock. A heap that exists keeps its number.
    /// Consecutive commands for one shard are one transaction, so fewer shards are faster for one thread that
    /// serves pipelines. Several threads need many shards [default: 16 for one thread, 64 for several].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_SHARDS)))]
    shards: Option<u32>,
    /// Any other option, as in redis.conf: `--set 'requirepass secret'`.
    #[arg(long = "set", value_name = "OPTION VALUE")]
    options: Vec<String>,
}

#[derive(clap::ValueEnum, Debug, Clone, Copy)]
enum Durability {
    /// When the log on the disk is synced, as `appendfsync` says.
    Disk,
    /// When it is in persistent memory: the heap is a file on a DAX file system.
    Pmem,
    /// Once the command has run, as long as the machine runs. A power failure may destroy the heap.
    Process,
}

fn main() -> ExitCode {
    match run() {
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

/// Splits the command line into options of `redis.conf` and arguments of this program.
fn split() -> (CommandLine, Arguments) {
    let mut command = Arguments::command();
    command.build();
    let own = |text: &str| {
        let (name, has_value) = text.split_once('=').map_or((text, true), |(name, _)| (name, false));
        let found = command.get_arguments().find(|argument| argument.get_long() == Some(name))?;
        Some(has_value && found.get_action().takes_values())
    };
    let line = CommandLine::split(std::env::args_os(), own);
    let arguments = Arguments::parse_from(&line.others);
    (line, arguments)
}

/// Reads the options. Returns them with sentences for the person that starts the server.
fn options(
    line: CommandLine,
    arguments: &Arguments,
) -> Result<(Config, Vec<String>), Box<dyn std::error::Error>> {
    let (mut reader, mut given) = (ConfigReader::default(), line.options);
    if let Some(path) = &arguments.config {
        reader.file(path)?;
    }
    if line.reads_input {
        let mut text = Vec::new();
        let read = std::io::stdin().read_to_end(&mut text);
        read.map_err(|error| format!("the standard input cannot be read: {error}"))?;
        reader.text("standard input", &text)?;
    }
    for option in &arguments.options {
        given.push(GivenOption::set(option)?);
    }
    if let Some(threads) = arguments.threads {
        given.push(GivenOption {
            form: OptionForm::Own,
            name: "io-threads".into(),
            values: vec![threads.to_string()],
        });
    }
    reader.arguments(&given)?;
    Ok(reader.finish())
}

/// Logs a sentence for the person that starts the server. If the log is a file, also prints it.
fn say(sentence: &str) {
    tracing::warn!("{sentence}");
    if logging::is_in_file() {
        eprintln!("pheap-redis: {sentence}");
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let (line, arguments) = split();
    let (mut config, notes) = options(line, &arguments)?;
    if arguments.ping {
        return Ok(ping(&config)?);
    }
    if arguments.import.is_some() && !config.text("replicaof").is_empty() {
        return Err("--import and `replicaof` both fill the heap; give one of them".into());
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
            return Err(
                format!("there is no heap {}; name an existing one with --heap", path.display()).into()
            );
        }
        let store = Store::open(&path, settings, shards)?;
        let keys = export(&store, file).map_err(|error| {
            format!("{} cannot be exported to {}: {error}", path.display(), file.display())
        })?;
        store.close()?;
        println!("pheap-redis: {keys} keys of {} were exported to {}", path.display(), file.display());
        return Ok(());
    }
    logging::begin(&config)?;
    tracing::info!(pid = std::process::id(), "pheap-redis {} begins", env!("CARGO_PKG_VERSION"));
    notes.iter().for_each(|note| say(note));
    let end = StopSignals::new()?;
    // The listeners are opened before the heap, which may take long to open, so that a port in use is
    // reported early.
    let listeners = Listener::all(&config)?;
    let link = Link::new(&config)?;
    let exporter = match config.text("metrics") {
        "" => None,
        address => Some(Exporter::new(address)?),
    };
    let workers = (0..config.int("io-threads")).map(|_| Worker::new()).collect::<Result<Vec<_>, _>>();
    let workers = workers.map_err(|error| {
        format!(
            "{} threads (`io-threads`) cannot be prepared: {error}; if too many files are open, raise the \
             limit (`ulimit -n`, or LimitNOFILE of systemd)",
            config.int("io-threads"),
        )
    })?;
    let (wanted, clients) =
        (config.int("maxclients"), descriptors::make_room(config.int("maxclients") as u64, 0)?);
    if clients < wanted as u64 {
        say(&format!(
            "`maxclients` is {clients} instead of {wanted}, because the system allows this process no more \
             open files; raise the hard limit (`ulimit -n`, or LimitNOFILE of systemd)"
        ));
        config.set("maxclients", &clients.to_string())?;
    }
    let store = open(&path, settings, shards, arguments.without_dax)?;
    // The PID file may be that of another process which has the heap open, so it is written only after the
    // heap is open.
    let _pid_file = match config.text("pidfile") {
        "" => None,
        path => PidFile::new(Path::new(path))
            .inspect_err(|error| {
                say(&format!(
                    "pidfile {path}: {error}; the server runs without a pidfile; set `pidfile` to another \
                     path"
                ))
            })
            .ok(),
    };
    let clocks = Clocks::new(&config, now());
    if let Some(file) = to_import(&store, &config, &path, arguments.import.as_deref())? {
        let began = Instant::now();
        let ImportCounts { keys, expired, empty, libraries } = import(&store, &clocks, &file)?;
        tracing::info!(
            "{keys} keys and {libraries} libraries of {} were imported in {} ms; {expired} keys that had \
             expired and {empty} keys without elements were left out",
            file.display(),
            began.elapsed().as_millis(),
        );
    }
    let mailboxes = workers.iter().map(Worker::mailbox).collect();
    let addresses: Vec<String> = listeners.iter().map(ToString::to_string).collect();
    let mut server = Server::new(store, config, mailboxes, pheap_redis::command::all_commands().count());
    server.config_file = arguments.config;
    server.role.set_thread(link.mailbox());
    server.clocks = clocks;
    pheap_redis::command::load_libraries(&server)?;
    pheap_redis::command::begin_replication(&server)?;
    // The signals are handled before the next line of the log, because a program that reads the line may send
    // one at once.
    end.begin();
    tracing::info!(threads = workers.len(), "clients connect to {}", addresses.join(", "));
    if addresses.is_empty() {
        say("no client can connect, because the server listens to no address; check `port`, `tls-port`, \
             `bind` and `unixsocket`");
    }
    if let Some(exporter) = &exporter {
        tracing::info!("metrics are at http://{}/metrics", exporter.address()?);
    }
    process::notify("READY=1");
    serve(&server, workers, listeners, link, exporter, end)?;
    process::notify("STOPPING=1");
    let began = Instant::now();
    server
        .store
        .close()
        .map_err(|error| format!("{} cannot be closed: {}", path.display(), explained(&error)))?;
    tracing::info!("all data are in the heap, which was closed in {} ms", began.elapsed().as_millis());
    Ok(())
}

/// Returns the file to import. If the arguments name none, the heap is empty, and a Redis has left a file or
/// a log, prints advice about these.
fn to_import(
    store: &Store,
    config: &Config,
    heap: &Path,
    asked: Option<&Path>,
) -> Result<Option<PathBuf>, Box<dyn std::error::Error>> {
    match asked {
        Some(file) if file != Path::new("auto") => return Ok(Some(file.to_owned())),
        None if !config.text("replicaof").is_empty() => return Ok(None),
        _ => {}
    }
    if !store.is_empty()? {
        if asked.is_some() {
            tracing::info!("nothing is imported: {} has data already", heap.display());
        }
        return Ok(None);
    }
    let left = RedisFiles::find(config);
    if asked.is_none() {
        left.advice(heap).iter().for_each(|sentence| say(sentence));
        return Ok(None);
    }
    let file = left.file_to_import(config)?;
    if file.is_none() {
        say(&format!(
            "nothing is imported: {} has no RDB file with the name `dbfilename` or dump.rdb; if it has \
             another name, start the server with `--import FILE` before clients write",
            config.text("dir"),
        ));
    }
    Ok(file)
}

/// Serves clients until the server stops.
fn serve(
    server: &Server,
    workers: Vec<Worker>,
    listeners: Vec<Listener>,
    link: Link,
    exporter: Option<Exporter>,
    end: StopSignals,
) -> std::io::Result<()> {
    thread::scope(|scope| {
        let no_more_signals = end.handle();
        scope.spawn(move || end.wait(server));
        if let Some(exporter) = exporter {
            scope.spawn(move || exporter.run(server));
        }
        scope.spawn(|| server.memory.run_collector(&server.store, &server.stopping));
        let builder = || thread::Builder::new().stack_size(scripts::STACK);
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

/// Opens the heap. Logs how long that took and what recovery did. Fails if the settings ask for persistent
/// memory, `without_dax` is not set, and the file system is neither DAX nor tmpfs.
fn open(path: &Path, settings: Settings, shards: u32, without_dax: bool) -> Result<Store, OpenError> {
    let (began, is_new) = (Instant::now(), !path.exists());
    let store = Store::open(path, settings, shards)?;
    if settings == Settings::Pmem
        && !without_dax
        && store.heap().info().offered == Some(pheap::Durability::Wal)
    {
        store.close()?;
        if is_new {
            // This call has just created the file, so removing it is safe.
            let _ = std::fs::remove_file(path);
        }
        return Err(OpenError::NotPersistent(path.to_owned()));
    }
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
            "{} was not closed: {} records of its log were replayed, {} undo entries were rolled back",
            path.display(),
            heap.replayed_records,
            heap.rolled_back_entries,
        );
    }
    Ok(store)
}

/// Stops the server when it is dropped, so that a thread that ends or panics also ends the others.
struct StopsOthers<'s>(&'s Server);

impl Drop for StopsOthers<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}
