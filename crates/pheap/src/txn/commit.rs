//! The end of a transaction: commit and rollback.

use super::context::{Context, Mode, doomed_error};
use crate::error::{Error, Result};
use crate::faults::{Bug, bug, may_panic};
use crate::log::{EntryId, EntryKind};
use crate::store::spans::TakenSpan;

/// While the log of records has fewer bytes than this, it grows when it is full, if there is space. A longer
/// log is emptied when it is full, which costs two fences, and a flush for each dirty line.
const RECORD_LOG: u64 = 256 << 10;

/// The result of a commit, which fits into one word. A `Result` with an `Error` in it is written in pieces
/// and copied as a whole. A processor delays such a copy until the pieces have left its store queue, after
/// the fence.
pub(crate) type CommitResult = Result<(), Box<Error>>;

/// Commits a transaction on one root, which has done something. If the commit fails, rolls the transaction
/// back.
pub(crate) fn commit(context: &mut Context) -> CommitResult {
    let result = match context.mode {
        Mode::Short => commit_alone(context),
        Mode::Long => commit_long(&mut [context]),
        Mode::Doomed => Err(doomed_error().into()),
    };
    match result {
        Ok(()) => finish_commit(context),
        Err(_) => rollback(context),
    }
    result
}

/// Commits one transaction over several roots: all of it or nothing. If the commit fails, rolls the
/// transaction back.
pub(crate) fn commit_group(contexts: &mut [&mut Context]) -> CommitResult {
    if contexts.iter().all(|context| context.mode == Mode::Short && context.is_untouched()) {
        return Ok(());
    }
    let result = if contexts.iter().any(|context| context.mode == Mode::Doomed) {
        Err(doomed_error().into())
    } else if contexts[0].mode == Mode::Long {
        commit_long(contexts)
    } else if contexts[0].media.wal().is_some() {
        commit_with_wal(contexts)
    } else if bug(Bug::RecordPerRoot) {
        contexts.iter_mut().try_for_each(|context| commit_alone(context))
    } else {
        commit_parts(contexts)
    };
    match &result {
        Ok(()) => {
            // The transaction has taken place. It cannot be rolled back any more, although the work after the
            // commit is not done for all roots yet.
            contexts.iter_mut().for_each(|context| context.is_between = true);
            contexts.iter_mut().for_each(|context| finish_commit(context));
        }
        Err(_) => rollback_group(contexts),
    }
    result
}

/// Commits with one redo record and one fence. There is another fence if there are more fresh objects than
/// the record holds, and further fences if the log is full. If nothing has changed, there is neither record
/// nor fence. Commits with the write-ahead log, if there is one.
#[inline(always)]
fn commit_alone(context: &mut Context) -> CommitResult {
    if context.media.wal().is_some() {
        return commit_with_wal(&mut [context]);
    }
    prepare(context);
    context.log.staged.begin_entry(EntryKind::Redo);
    let flushed = context.stage();
    if context.log.staged.is_empty() && !flushed {
        return Ok(()); // no word has changed
    }
    commit_to_log(context, flushed)?;
    context.upgrade();
    context.apply();
    Ok(())
}

/// Commits with a redo record in [parts](super::parts), one in the log of each root that has changed, and one
/// fence. There is another fence if there are more fresh objects than the parts hold, and further fences if a
/// log is full.
fn commit_parts(contexts: &mut [&mut Context]) -> CommitResult {
    let mut flushed = false;
    for context in contexts.iter_mut() {
        prepare(context);
        context.log.staged.begin_entry(EntryKind::Redo);
        flushed |= context.stage();
    }
    if flushed {
        // Fresh objects must be durable before the record that makes them reachable, which may be the record
        // of a later transaction.
        contexts[0].media.fence();
    }
    let Some(stale) = last_part(contexts) else {
        if flushed {
            Context::upgrade_all(contexts); // a collection may begin, as after a record
        }
        return Ok(());
    };
    contexts[0].is_between = true; // from here on only recovery can tell whether it commits
    for context in with_record(contexts) {
        context.log.staged.make_part();
        if !context.log.has_room() {
            make_room(context)?;
        }
    }
    // The parts name one another only after the logs have room: a log that was emptied to make room has a new
    // generation.
    let last = if bug(Bug::NameBeforeRoom) { Some(stale) } else { last_part(contexts) };
    let mut other = last.expect("some have a record");
    for context in with_record(contexts) {
        context.log.staged.name(other);
        other = context.next_entry();
        context.log.append(&context.media);
    }
    contexts[0].media.fence();
    Context::upgrade_all(contexts);
    contexts.iter_mut().for_each(|context| context.apply());
    Ok(())
}

/// Returns the contexts that have something to record.
fn with_record<'a>(contexts: &'a mut [&mut Context]) -> impl Iterator<Item = &'a mut Context> {
    contexts.iter_mut().map(|context| &mut **context).filter(|context| !context.log.staged.is_empty())
}

/// Returns the name of the last part of the staged record, if any context has a part.
fn last_part(contexts: &[&mut Context]) -> Option<EntryId> {
    contexts.iter().rfind(|context| !context.log.staged.is_empty()).map(|context| context.next_entry())
}

/// Commits with a write-ahead log, which takes one record for all roots.
fn commit_with_wal(contexts: &mut [&mut Context]) -> CommitResult {
    let mut record = std::mem::take(&mut contexts[0].log.staged);
    record.begin_entry(EntryKind::Redo);
    let mut flushed = false;
    for context in contexts.iter_mut() {
        prepare(context);
        flushed |= context.stage_into(&mut record);
    }
    let lead = &mut *contexts[0];
    lead.log.staged = record;
    if lead.log.staged.is_empty() && !flushed {
        return Ok(());
    }
    commit_to_wal(contexts)
}

/// Does the work that precedes the comparison of copies with their originals.
#[inline(always)]
fn prepare(context: &mut Context) {
    context.zero_padding();
    may_panic();
    context.shade_originals();
    let Context { set, gc, .. } = context;
    if gc.remembered.is_active() {
        set.copies().for_each(|(addr, _, words)| gc.remembered.add(addr, words * 8));
    }
}

/// Makes the staged record durable in the region's log. If the log cannot get room for the record, this fails
/// before the record is written. After the record is durable, nothing can fail until its words are stored in
/// place.
#[inline(always)]
fn commit_to_log(context: &mut Context, flushed: bool) -> CommitResult {
    // From here on the record may be in the log. After a panic, only recovery can find out whether the
    // transaction has taken place.
    context.is_between = true;
    if !context.log.has_room() {
        make_room(context)?;
    }
    if flushed {
        // Fresh objects must be durable before the record that makes them reachable.
        context.media.fence();
    }
    context.log.append(&context.media);
    context.media.fence();
    Ok(())
}

/// Appends the staged record, if it is not empty, to the write-ahead log, and stores its words in place.
#[inline(never)]
fn commit_to_wal(contexts: &mut [&mut Context]) -> CommitResult {
    // The contexts are upgraded before there is a record: a checkpoint may bring the record to the file
    // before its words are stored here, and readers see the file where this process has not stored to a page.
    Context::upgrade_all(contexts);
    contexts[0].is_between = true; // from here on only recovery can tell whether it commits
    for context in contexts.iter() {
        if let Some(wal) = context.media.wal() {
            // This records the fresh objects that the staged record does not hold. They may come before it in
            // the log, because nothing points to them yet.
            context.media.record(wal)?;
        }
    }
    let lead = &mut *contexts[0];
    if let Some(wal) = lead.media.wal()
        && !lead.log.staged.is_empty()
    {
        lead.media.record_staged(wal, &mut lead.log.staged)?;
        lead.apply();
    }
    share_position(contexts);
    Ok(())
}

/// Gives all contexts the largest of their log positions. If the transaction has a record, only the first
/// context has its position so far. If it has none, each root may have read data that depend on an older
/// record of another root.
fn share_position(contexts: &mut [&mut Context]) {
    let position = contexts.iter().map(|context| context.media.position()).max().unwrap_or(0);
    contexts.iter().for_each(|context| context.media.set_position(position));
}

/// Makes room for the staged record: grows the log while it is small, and empties it if it is large or cannot
/// grow. If the emptied log is still too short, grows it.
#[cold]
fn make_room(context: &mut Context) -> Result<()> {
    if context.log.capacity() < RECORD_LOG && context.grow_log().is_ok() {
        return Ok(());
    }
    context.retire_records();
    if context.log.has_room() {
        return Ok(());
    }
    // If there is no space for this transaction, a collection may free some for the next one.
    context.grow_log().inspect_err(|_| context.gc.wanted = true)
}

/// Commits a long transaction: makes its data durable, and then empties the undo log. The new generation of
/// the log is the commit word. With a write-ahead log, a record of the data commits the transaction instead.
fn commit_long(contexts: &mut [&mut Context]) -> CommitResult {
    // Span-table entries are logged like objects, so that a crash leaks no span.
    let mut taken: Vec<TakenSpan> = Vec::new();
    contexts.iter().for_each(|context| taken.extend(context.alloc.taken()));
    if !taken.is_empty() {
        contexts[0].append_entries(&taken)?;
    }
    for context in contexts.iter_mut() {
        context.write_back_copies();
        let store = context.store();
        let base = store.base();
        may_panic();
        context.zero_padding();
        let Context { alloc, logged, media, gc, .. } = &mut **context;
        alloc.taken().for_each(|span| store.write_entry(media, span));
        for &(start, end) in alloc.fresh_ranges() {
            media.flush(std::ptr::without_provenance(start), end - start);
        }
        logged.drain_lines(|offset, len| {
            let len = if bug(Bug::RecordFirstWords) { 8 } else { len };
            let words = base.wrapping_add(offset);
            gc.remembered.add(words.addr(), len);
            media.flush(words, len);
        });
    }
    contexts[0].is_between = true; // from here on only recovery can tell whether it commits
    if let Some(wal) = contexts[0].media.wal() {
        contexts[1..].iter().for_each(|context| contexts[0].media.take_noted(&context.media));
        contexts[0].media.record(wal)?;
        share_position(contexts);
    } else {
        contexts[0].media.fence();
    }
    let Context { log, media, .. } = &mut *contexts[0];
    log.reset(media);
    Ok(())
}

/// Brings the context into the state between transactions, after a commit.
#[inline(always)]
fn finish_commit(context: &mut Context) {
    if !context.alloc.is_untouched() {
        context.is_between = true; // a commit without a record has not set it
        may_panic();
        context.gc.remember_fresh(&mut context.alloc);
        context.alloc.commit(context.store());
        context.gc.publish(&context.alloc);
        if context.alloc.is_quarantine_full() {
            context.retire_records();
        }
        if context.log.is_empty() || bug(Bug::FreeAtOnce) {
            context.log_is_empty();
        }
    }
    may_panic();
    debug_assert!(context.mode == Mode::Short || context.set.is_empty());
    context.set.retain_copies();
    end_transaction(context);
}

/// Forgets the transaction. The caller clears the write set, or keeps it for the next transaction.
#[inline(always)]
fn end_transaction(context: &mut Context) {
    context.media.no_more_stores();
    context.copies_pending = false;
    context.hot().forget_copies(0, Bug::RecentAfterEnd);
    context.granularity.end_transaction();
    context.forget_looks();
    context.room_ahead = None;
    context.end_mode();
    context.is_between = false;
}

/// Rolls the transaction of one root back.
pub(crate) fn rollback(context: &mut Context) {
    rollback_group(&mut [context]);
}

/// Rolls a transaction over several roots back.
pub(crate) fn rollback_group(contexts: &mut [&mut Context]) {
    contexts.iter_mut().for_each(|context| context.is_between = true);
    may_panic();
    let lead = &mut *contexts[0];
    if lead.mode != Mode::Short {
        // A log with records has no undo entries, and must not be reset here; see `retire_records`.
        if lead.restore() {
            if lead.media.wal().is_none() {
                lead.media.fence();
            }
            lead.log.reset(&lead.media);
        }
    }
    for context in contexts.iter_mut() {
        let store = context.store();
        context.media.forget_noted(context.alloc.fresh_ranges());
        context.logged.drain_lines(|_, _| {});
        context.doomed.clear();
        context.padded.clear();
        context.alloc.rollback(store);
        may_panic();
        if bug(Bug::KeepStaleCopies) {
            context.set.retain_copies();
        } else {
            context.set.clear();
        }
        end_transaction(context);
    }
}
