//! The content of the heap: players, their sessions, and the board of their points.
//!
//! These are plain structs and functions. They do not depend on tasks or HTTP.

use std::cmp::Reverse;
use std::time::SystemTime;

use pheap::{P, PBTreeMap, PHashMap, PSystemTime, Persist, Result, Txn, View, field};
use serde::Serialize;

/// The root.
#[derive(Persist, Default)]
#[repr(C)]
pub struct Game<'r> {
    /// The players, by name.
    pub players: PHashMap<'r, P<'r, str>, P<'r, Player<'r>>>,
    /// The sessions, by token.
    pub sessions: PHashMap<'r, u128, Session<'r>>,
    /// All players, the best last.
    pub board: PBTreeMap<'r, Place, P<'r, Player<'r>>>,
}

#[derive(Persist)]
#[repr(C)]
pub struct Player<'r> {
    pub name: P<'r, str>,
    pub place: Place,
}

/// Place on the board. Of two players with equal points, the earlier one is better.
#[derive(Persist, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C)]
#[persist(key)]
pub struct Place {
    pub points: u64,
    pub number: Reverse<u64>,
}

#[derive(Persist, Clone, Copy)]
#[repr(C)]
pub struct Session<'r> {
    pub player: P<'r, Player<'r>>,
    pub until: PSystemTime,
}

/// A line of the board, as clients see it.
#[derive(Serialize)]
pub struct Line {
    pub name: String,
    pub points: u64,
}

impl<'r> Game<'r> {
    /// Begins a session of the player with this name. Creates the player if there is none.
    pub fn log_in(
        game: P<'r, Self>,
        tx: &mut Txn<'r>,
        name: &str,
        token: u128,
        until: SystemTime,
    ) -> Result<()> {
        let player = match tx[game].players.get(tx, name) {
            Some(&player) => player,
            None => {
                let place = Place { points: 0, number: Reverse(tx[game].players.len() as u64) };
                let player = tx.alloc(Player { name: tx.alloc_str(name)?, place })?;
                field!(game.players).insert(tx, name, player)?;
                field!(game.board).insert(tx, place, player)?;
                player
            }
        };
        field!(game.sessions).insert(tx, token, Session { player, until: until.into() })?;
        Ok(())
    }

    /// Returns the player of a session, unless the session has expired.
    pub fn player(&self, view: &View<'r>, token: u128) -> Option<P<'r, Player<'r>>> {
        let session = self.sessions.get(view, token)?;
        (session.until.get() > SystemTime::now()).then_some(session.player)
    }

    /// Adds points to a player, and moves the player on the board.
    pub fn add_points(
        game: P<'r, Self>,
        tx: &mut Txn<'r>,
        player: P<'r, Player<'r>>,
        points: u64,
    ) -> Result<Line> {
        let board = field!(game.board);
        let old = tx[player].place;
        let place = Place { points: old.points.saturating_add(points), ..old };
        board.remove(tx, old);
        board.insert(tx, place, player)?;
        tx[player].place = place;
        Ok(Line::of(tx, player))
    }

    /// Returns at most `lines` lines of the board, the best first.
    pub fn best(&self, view: &View<'r>, lines: usize) -> Vec<Line> {
        self.board.values(view).rev().take(lines).map(|&player| Line::of(view, player)).collect()
    }

    /// Removes the sessions that have expired.
    pub fn end_sessions(game: P<'r, Self>, tx: &mut Txn<'r>, now: SystemTime) {
        field!(game.sessions).retain(tx, |_, session| session.until.get() > now);
    }
}

impl Line {
    fn of<'r>(view: &View<'r>, player: P<'r, Player<'r>>) -> Line {
        let player = &view[player];
        Line { name: view[player.name].to_owned(), points: player.place.points }
    }
}
