//! `Error`: the reasons for which a call fails, their texts, and how to react to them.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

/// The result of most functions and methods of pheap.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason for which a call has failed. A transaction that returns an error is rolled back (for exceptions
/// see [`OutcomeUnknown`](Error::OutcomeUnknown) and [`Failed`](Error::Failed)).
///
/// `Debug` prints the same text as `Display`, because a `main` that returns a `Result` prints the `Debug`
/// form of its error.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A call of the operating system failed, for instance on a heap's file or its log.
    #[error("{context}: {source}")]
    Io {
        /// The operation that failed, in most cases with the path.
        context: String,
        /// The error of the operation.
        source: std::io::Error,
    },

    /// The file exists, and has no header of a heap. The file was not changed.
    #[error("{} is not a pheap file; choose another path, or move it away first", path.display())]
    NotAHeap {
        /// Path of the file.
        path: PathBuf,
    },

    /// The path does not lead to a regular file, but for example to a directory or a device.
    #[error(
        "{} is {kind}, and a heap is a regular file; give the path of a heap, or a path where no file is yet",
        path.display()
    )]
    NotAFile {
        /// The path that does not lead to a regular file.
        path: PathBuf,
        /// The kind of file that the path leads to, such as "a directory".
        kind: &'static str,
    },

    /// The file of the open heap was removed, or another file took its name: the heap's content is lost when
    /// its last handle is dropped. [`Heap::backup`](crate::Heap::backup) saves all commits. Transactions that
    /// need not grow the file continue, unless the heap has a log (see [`Misplaced`](Error::Misplaced)).
    #[error(
        "{} was removed or replaced while the heap was open, so its data are lost when the heap is closed; \
         save them with `Heap::backup` to a path where no file is, and open the heap there",
        path.display()
    )]
    Removed {
        /// Path with which the heap's file was opened.
        path: PathBuf,
    },

    /// The file is shorter than its header says, or than a header.
    #[error(
        "{} is truncated: {have} of {need} bytes are there; restore the whole file from a copy",
        path.display()
    )]
    Truncated {
        /// Path of the heap's file.
        path: PathBuf,
        /// Length of the file in bytes.
        have: u64,
        /// Least length in bytes that the file should have.
        need: u64,
    },

    /// A newer version of pheap wrote the heap or the backup, in a format that this version does not know.
    #[error(
        "the heap has format {found}, this program knows formats up to {supported}; use a program built with a newer pheap"
    )]
    NewerFormat {
        /// Number of the format that was found. If the heap has feature flags that this version does not
        /// know, its flags are in the upper 32 bits.
        found: u64,
        /// Number of the newest format that this version knows.
        supported: u64,
    },

    /// An older version of pheap wrote the file, in a format that this version does not support.
    #[error(
        "the heap has format {found}, this program knows formats from {oldest} on; export its roots with the program that wrote it, and import them here"
    )]
    OlderFormat {
        /// Number of the format that was found.
        found: u64,
        /// Number of the oldest format that this version knows.
        oldest: u64,
    },

    /// A checksum or an invariant of the heap, its log or a backup does not hold, or the log is cut off. If
    /// the log is cut off and you have the whole log, put it back: the refused opening has changed neither
    /// the heap's file nor the log.
    #[error("the heap is corrupt: {what}; restore it from a copy")]
    Corrupt {
        /// A text that says what is wrong, and in most cases where.
        what: String,
    },

    /// Another process has the heap open. (Several processes can have it open at a time if all only read it.)
    #[error(
        "{} is open in another process; close it there first, or read a copy of it with `Options::follower`",
        path.display()
    )]
    Locked {
        /// Path of the heap's file.
        path: PathBuf,
    },

    /// The heap is in use in a way that writes no log, or is only being prepared for its log, so a
    /// [follower](crate::Options::follower) could not distinguish its states.
    #[error(
        "{} is in use with {how}, and a follower can read only a heap that is closed or in use with \
         `Durability::Wal`; use that durability in the program that has the heap open, or let that program \
         make a copy with `Heap::backup`. If no program has it open, because the last one was killed, open \
         it without `Options::follower`",
        path.display()
    )]
    NotFollowed {
        /// Path of the heap's file.
        path: PathBuf,
        /// A text that says how the heap is in use.
        how: &'static str,
    },

    /// A [follower](crate::Options::follower) has tried several times to copy the heap, and its log or the
    /// heap itself had changed too much during the copy: the program that has the heap open writes, or opens
    /// and closes it, too fast.
    #[error(
        "{} changes faster than it can be copied: in {tries} attempts, its log was overwritten before it was read, or the heap was opened, closed or replaced; try again later, open it with a \
         larger `Options::log_limit` in the program that writes to it, or let that program make a `Heap::backup`",
        path.display()
    )]
    Overtaken {
        /// Path of the heap's file.
        path: PathBuf,
        /// Number of attempts to copy the heap.
        tries: u32,
    },

    /// This process already has the heap open, perhaps under another name.
    /// [`Heap::holders`](crate::Heap::holders) also lists the handles.
    #[error(
        "{} is open in this process already (perhaps under another name), {held_by}; share that `Heap`, or \
         close it with `Heap::close`, which does not wait for handles to be dropped",
        path.display()
    )]
    AlreadyOpen {
        /// Path of the file, as named in the refused call.
        path: PathBuf,
        /// A text for the handles that keep the heap open, for example "held by 1 handle of a root (`jobs`)";
        /// or "being opened" or "being closed".
        held_by: Box<str>,
    },

    /// The heap was in use with `Process` durability, and the machine went down before it was closed.
    #[error(
        "the heap was in use with `Durability::Process` when the machine went down, so it may be torn; \
         restore it from a copy, or open it with `Options::verify(true)`, which checks all of it first (the \
         newest transactions may be torn nevertheless)"
    )]
    NotClosed,

    /// The heap was in use with `Process` durability and was not closed, and it is unknown whether the
    /// machine has been down since: there is no `/proc` now, or there was none when the heap was opened.
    /// Without `/proc`, a heap that a killed process has used with this durability opens only in a tmpfs, or
    /// with `Options::verify` or `Options::restored`.
    #[error(
        "{} was in use with `Durability::Process` and was not closed. Without /proc it is unknown whether \
         the machine went down since then, so the heap may be torn; open it with `Options::verify(true)`, \
         which checks all of it first. From then on, mount /proc before the heap is opened, or use \
         `Durability::Wal`",
        path.display()
    )]
    BootUnknown {
        /// Path of the heap's file.
        path: PathBuf,
    },

    /// The file is a copy that was made while a program had the heap open, or after that program was killed.
    /// If the copy was made during transactions, it may be torn, even if it looks valid. The copy was not
    /// changed.
    #[error(
        "{} is a copy of a heap that was in use when it was made, so it may be torn; make copies with `Heap::backup` or `pheap backup`, or of closed heaps. If \
         nobody changed the heap meanwhile, open the copy once with `Options::restored(true)`, which checks all of it first",
        path.display()
    )]
    Copied {
        /// Path of the copy.
        path: PathBuf,
    },

    /// The heap was in use with [`Durability::Wal`](crate::Durability::Wal), and its log is not next to it,
    /// or is empty: the file is a copy of the heap without its log, or the log was removed, or the heap's
    /// file was renamed.
    #[error(
        "{} is missing: it is the log, which has the newest transactions of the heap; put it back, or \
         restore the heap and its log from a copy. (If the heap was renamed, or opened by another name, the \
         log is next to that name; rename the log to this one)",
        path.display()
    )]
    LogMissing {
        /// Path where the log should be.
        path: PathBuf,
    },

    /// The file with the name of the heap's log is not the log of this heap, or the log's head is damaged.
    /// The file was not changed.
    #[error(
        "{} is not the log of this heap ({why}); move it away, or put the log back that belongs there",
        path.display()
    )]
    ForeignLog {
        /// Path of the file that has the name of the heap's log.
        path: PathBuf,
        /// The reason why the file is refused as the heap's log.
        why: String,
    },

    /// With [`Durability::Wal`](crate::Durability::Wal), a heap has a log next to it. Here the log would lie
    /// in another file system than the heap, because the heap's file is a separate mount (a single file that
    /// was passed to a container, for example). If the heap were opened elsewhere, the log would be missing.
    /// Nothing was changed.
    #[error(
        "{} is a mount of a single file, and `Durability::Wal` needs a log next to it, in the same file \
         system; mount the directory of the file instead",
        path.display()
    )]
    MountedAlone {
        /// Path of the heap's file.
        path: PathBuf,
    },

    /// While the heap was open with [`Durability::Wal`](crate::Durability::Wal), its log was removed or
    /// renamed, or another file was put in the log's place, or the heap's file was removed, or renamed
    /// without its log. The next opening could not find further commits, so the heap can no longer be read or
    /// written. If the heap's file still exists, [closing](crate::Heap::close) the heap writes all commits to
    /// it. If the program ends before that, the log has them: put it back next to the heap's file.
    #[error(
        "the heap's file and its log are not where the next opening looks for them ({reason}); close the \
         heap with `Heap::close`, which writes all commits to the heap's file if that still exists. Then \
         move away any other file that has the name of the heap or of its log, and open the heap again. If \
         the program ends before it closes the heap, put the log back next to the heap's file"
    )]
    Misplaced {
        /// A text that names the file and the problem.
        reason: String,
    },

    /// The transaction (for a sync: some transaction) has committed in memory, but the disk failed while the
    /// log was written, or the log could not be found afterwards: only the next opening of the heap shows
    /// whether the transaction survives. The heap cannot be used until then. If the files are just
    /// [misplaced](Error::Misplaced), closing the heap saves the transaction.
    #[error(
        "the disk failed while the transaction was written to the log, or the log cannot be found \
         ({source}), so it is unknown whether the transaction is durable; close the heap, open it again, and \
         look whether the changes are there"
    )]
    OutcomeUnknown {
        /// The error of the disk, or of the look for the log.
        source: std::io::Error,
    },

    /// The disk failed earlier, or a panic has interrupted pheap in the middle of a commit, a rollback or a
    /// collection, or the program has installed a filter of system calls that refuses `membarrier` although
    /// threads already rely on it. Memory may be ahead of the disk, or inconsistent, so the heap cannot be
    /// read or written until it is reopened, which recovers all durable transactions.
    #[error(
        "the heap has failed ({reason}); close it and open it again, which recovers all durable transactions"
    )]
    Failed {
        /// The cause of the failure.
        reason: String,
    },

    /// The root has another type than the one with which the program opens it. Annotations declare renamed
    /// and new fields, and [`Heap::migrate`](crate::Heap::migrate) makes a new root from the old one.
    #[error(
        "root {root:?} holds values of another layout; `Heap::migrate` brings them to the new one\n{difference}"
    )]
    TypeMismatch {
        /// Name of the root.
        root: String,
        /// A text that shows the two layouts and where they differ, mostly with a hint how to proceed.
        difference: String,
    },

    /// The root's type has changed since this handle was made: by [`Heap::migrate`](crate::Heap::migrate) or
    /// [`Heap::evolve`](crate::Heap::evolve), or because the root was opened as a type with annotations that
    /// allow it.
    #[error(
        "root {root:?} got another type after this handle was made: by `Heap::migrate` or `Heap::evolve`, or \
         because it was opened as a newer version of its type; get a new handle, with the new type, from \
         `Heap::root`"
    )]
    Migrated {
        /// Name of the root.
        root: String,
    },

    /// A root is to get a new type: its annotations (`#[persist(was = ..)]`, `#[persist(since = ..)]`) allow
    /// it, or [`Heap::evolve`](crate::Heap::evolve) converts it. The heap accepts the new type only if the
    /// program has no pointer to the values that was made for the old type: no [`Held`](crate::Held), and no
    /// [`Snapshot`](crate::Snapshot).
    #[error(
        "root {root:?} cannot get its new type while the program has a `Held` pointer or a `Snapshot` of it; \
         drop them first (`Heap::holders` counts them)"
    )]
    HeldPointers {
        /// Name of the root.
        root: String,
    },

    /// The objects of a root are being [converted](crate::Heap::evolve) to other types: a thread is
    /// converting them at this moment, or the conversion was interrupted, by a crash for example. The program
    /// that has begun the conversion continues it when it calls `evolve` again. Until then, no program can
    /// open the root, and a program with other types cannot complete the conversion.
    #[error(
        "the conversion of root {root:?} to other types is not finished; run `Heap::evolve` in the program \
         that began it, with the same types. Until then, no program can open the root"
    )]
    Unfinished {
        /// Name of the root.
        root: String,
    },

    /// A pointer in the heap leads to a part of an object, and the type of the part or of the object has
    /// changed: in the new type, the part may have moved, or may be something else than the type of the
    /// pointer. Or the pointer is to a type without bytes that gets some bytes, or the other way round: a
    /// pointer to a type without bytes leads to no object. No value was changed;
    /// [`Heap::migrate`](crate::Heap::migrate) can do changes that [`Heap::evolve`](crate::Heap::evolve) and
    /// annotations cannot.
    #[error(
        "root {root:?} has pointers to parts of objects of type `{type_name}`, so these objects cannot be \
         converted one by one; `Heap::migrate` makes a new root from the old one"
    )]
    PointerToPart {
        /// Name of the root.
        root: String,
        /// Name of the type of the objects that the pointers lead into, or of the type without bytes.
        type_name: String,
    },

    /// A heap cannot store objects of this type, because its type table cannot describe it. Nothing was
    /// changed; other types are not affected.
    #[error("a heap cannot keep objects of type `{type_name}`: {why}")]
    UnsupportedType {
        /// Name of the type, or of the part of the type that a heap cannot store.
        type_name: String,
        /// The reason, and mostly a way to solve the problem.
        why: String,
    },

    /// This thread is already inside a transaction, a read or a snapshot of this heap, or in code that a
    /// method of the heap calls, such as [`on_progress`](crate::Evolution::on_progress), while it has the
    /// heap locked. Waiting for the heap might never end.
    #[error(
        "this thread is already inside a transaction or read of this heap, or inside a function that a \
         method of the heap has called; pass on the `tx` of the outer transaction, open several roots \
         together with `pheap::txn`, or make this call after the outer one has returned"
    )]
    Nested,

    /// This thread is already inside another heap, and two threads that nest two heaps in opposite orders
    /// could wait for ever. A thread is inside a heap in a transaction, in a read, at a snapshot, and in code
    /// that pheap calls while it checks, converts or copies the heap.
    ///
    /// Within a transaction of one heap, a program can read another heap, and within a read, change another
    /// heap. A transaction within a transaction is refused: one heap cannot roll back a commit of another, so
    /// the two are not one transaction. If an error, a panic or a crash follows the inner transaction, its
    /// changes stay. Within a transaction, a read or a snapshot, methods that wait for a whole other heap are
    /// refused, too: to create, rename, remove or convert a root, to collect, check, inspect, copy or close
    /// the heap. (The last handle may be dropped anywhere.)
    ///
    /// [`with_several_heaps`](crate::with_several_heaps) allows what is refused above. In any case, nest the
    /// heaps in the same order everywhere: if two threads, each in a transaction of one heap, read the other
    /// heap, each waits for the other thread.
    #[error(
        "this thread is already inside another heap. Two threads that nest two heaps in opposite orders \
         would wait for each other for ever, and two nested transactions are not atomic together: what the \
         inner one commits stays if the outer one fails. Leave the other heap first, keep both roots in one \
         heap (`pheap::txn`), or allow nesting with `pheap::with_several_heaps`, in the same order of heaps \
         everywhere"
    )]
    SeveralHeaps,

    /// One transaction has got the same root twice.
    #[error("root {root:?} was given twice to one transaction; give each root once")]
    DuplicateRoot {
        /// Name of the root.
        root: String,
    },

    /// The disk, a quota or a file is full, or another limit is reached, such as `Options::max_size`. A
    /// transaction that returns this error is rolled back, and the heap stays usable.
    #[error("there is no space: {reason}; free some space, or raise the limit, and try again")]
    OutOfSpace {
        /// A text that names the limit.
        reason: String,
    },

    /// The heap has outgrown the address range that it reserved when it was created.
    #[error(
        "the heap needs {need} bytes of addresses, more than its reservation of {reserved}, which cannot \
         grow; remove data, or create a new heap with a larger `Options::reserve` and copy the data to it"
    )]
    ReservationFull {
        /// Bytes of addresses that the heap would need.
        need: u64,
        /// Bytes of addresses that the heap has reserved for its whole life.
        reserved: u64,
    },

    /// Other memory of this process uses the address range of the heap.
    #[error(
        "the addresses of the heap ({size} bytes at {base:#x}) are in use in this process; open the heap \
         without `Options::base`, with another one, or in another process"
    )]
    AddressInUse {
        /// First address of the heap's range.
        base: u64,
        /// Length of the heap's range of addresses in bytes.
        size: u64,
    },

    /// No addresses are left for another heap of this size in this process: each place where it could be is
    /// taken, at least in part, by other heaps or other memory.
    #[error(
        "too many heaps are open in this process: no {reserved} bytes of addresses are left; close some and \
         drop all their handles, or create heaps with a smaller `Options::reserve`"
    )]
    TooManyHeaps {
        /// Bytes of addresses that the heap reserves.
        reserved: u64,
    },

    /// Opening a heap for reading needs more memory than half of
    /// [`Options::memory_limit`](crate::Options::memory_limit), and the heap could not be copied to a file
    /// instead.
    #[error(
        "opening {} needs {need} bytes of memory, more than half of `Options::memory_limit` ({limit}), and \
         the heap could not be copied to a file in {} instead: {source}; set that limit to {} or more, or \
         name a directory with more space by `Options::temp_dir`",
        path.display(), directory.display(), 2 * need
    )]
    MemoryLimit {
        /// Path of the heap's file.
        path: PathBuf,
        /// Bytes of private memory that the opening needs.
        need: u64,
        /// The value of `Options::memory_limit` in bytes.
        limit: u64,
        /// The directory in which the copy was to be made.
        directory: PathBuf,
        /// The error for which the copy could not be made.
        source: std::io::Error,
    },

    /// The heap is open read-only.
    #[error(
        "the heap is open read-only; to change it, open it without `Options::read_only` and \
         `Options::follower`"
    )]
    ReadOnly,

    /// This program may not open, create or write the file, or the file system is read-only.
    #[error(
        "no permission to open or write {}; change the mode of that file or of its directory, or choose a \
         place that this program may write to. To read a heap without permission to write, open it with \
         `Options::read_only(true)`",
        path.display()
    )]
    NoPermission {
        /// Path of the file.
        path: PathBuf,
    },

    /// There is no root with this name.
    #[error("there is no root {0:?}; `Heap::roots` lists those that exist")]
    NoSuchRoot(String),

    /// There is a root with this name already.
    #[error(
        "there is a root {0:?} already; choose another name, or remove that root first with \
         `Heap::remove_root`"
    )]
    RootExists(String),

    /// The given name cannot be that of a root, which has 1 to 255 bytes.
    #[error("{0:?} cannot name a root: a name is 1 to 255 bytes long")]
    InvalidName(String),

    /// The value of an option is invalid.
    #[error("{0}")]
    InvalidOption(&'static str),

    /// The `Heap` was closed, or the root removed, while this handle existed.
    #[error(
        "the heap was closed or the root removed; open the heap again, or get a new handle from `Heap::root`"
    )]
    Closed,

    /// A [`Held`](crate::Held) pointer belongs to another root, or to a transaction that was rolled back or
    /// has not committed yet.
    #[error("the held pointer belongs to another root, or to a transaction that was rolled back")]
    NotHeld,

    /// The object is larger than a heap can hold.
    #[error("an object of {bytes} bytes is too large; split it into several objects")]
    TooLarge {
        /// Size of the object in bytes; perhaps `u64::MAX` if the size is 2^48 or more, or was not computed.
        bytes: u64,
    },

    /// The requested durability is not available here, or this thread is inside too many heaps at a time.
    #[error("{0}")]
    Unsupported(&'static str),

    /// This process was forked from the one that opened the heap, and only that one may use this handle. The
    /// heap's files are not open in the child, so the child can open the heap by its path, after the parent
    /// has closed it or ended. (Until then that is [`Locked`](Error::Locked).) A program that continues in a
    /// child should open the heap after `fork`, or close it before. A child that was forked within a
    /// transaction cannot continue the transaction; it belongs to the parent.
    #[error(
        "the heap was opened by the parent of this process, and only the parent can use this handle; open \
         the heap here by its path after the parent has closed it or ended, or open it after `fork` instead \
         of before"
    )]
    Forked,

    /// The data do not match the type, are nested too deep, or are not valid in their format.
    #[cfg(feature = "serde")]
    #[error("the data cannot be imported: {what}; correct them, or import another type")]
    Malformed {
        /// The place in the data, if it is known, and the message of the deserialiser or of pheap.
        what: String,
    },

    /// The program aborted the transaction, with this reason. pheap itself never makes this error.
    #[error("transaction given up: {0}")]
    Aborted(Cow<'static, str>),
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// Returns an error with which a program aborts its own transaction:
    /// `return Err(Error::abort("not enough money"))`.
    pub fn abort(reason: impl Into<Cow<'static, str>>) -> Error {
        Error::Aborted(reason.into())
    }

    pub(crate) fn io(context: impl Into<String>, source: std::io::Error) -> Error {
        Error::Io { context: context.into(), source }
    }

    /// Converts an error of a write: `OutOfSpace` if there is no space, else `Io`.
    pub(crate) fn writing(context: impl Into<String>, source: std::io::Error) -> Error {
        let context = context.into();
        if is_full(&source) {
            Error::OutOfSpace { reason: format!("{context}: {source}") }
        } else {
            Error::Io { context, source }
        }
    }

    /// Converts an error of opening, creating or writing a file at `path`: `NoPermission`, `OutOfSpace`, or
    /// `Io`.
    pub(crate) fn making(doing: &str, path: &std::path::Path, source: std::io::Error) -> Error {
        use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
        match (source.kind(), source.raw_os_error()) {
            (PermissionDenied | ReadOnlyFilesystem, _) => Error::NoPermission { path: path.to_owned() },
            (_, Some(libc::ENAMETOOLONG)) => Error::io(
                format!("{doing} {}, whose name is too long: choose a shorter one", path.display()),
                source,
            ),
            _ => Error::writing(format!("{doing} {}", path.display()), source),
        }
    }

    pub(crate) fn corrupt(what: impl Into<String>) -> Error {
        Error::Corrupt { what: what.into() }
    }
}

/// Returns whether the error says that a disk or a quota is full, or a file as long as it may be.
pub(crate) fn is_full(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG))
}
