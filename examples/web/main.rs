//! A web service with sessions and a leaderboard, without a database. All changes that it has answered
//! survive `kill -9`.
//!
//! ```text
//! cargo run --release -p pheap-example-web             then open http://127.0.0.1:8080
//! cargo test -p pheap-example-web                      kills it, and looks
//! ```
//!
//! Requests are tasks of tokio, and none of its threads waits for a sync of the disk. A handler awaits its
//! transaction (`txn_async`), which completes when it is durable. Handlers that wait together share syncs.
//! The types are in `store.rs`; start reading there. The page with the board is `page.html`.

#![allow(unreachable_pub)] // a program has no public interface

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use axum::extract::{Query, State};
use axum::http::header::{COOKIE, SET_COOKIE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use clap::Parser;
use pheap::{Heap, Root};
use serde::Deserialize;
use tokio::net::TcpListener;

use store::{Game, Line};

mod store;

/// Duration of a session.
const SESSION: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Most lines of the board in one answer.
const LINES: usize = 100;

/// A web service with sessions and a leaderboard.
#[derive(Parser)]
struct Args {
    /// The heap file; created if there is none.
    #[arg(long, value_name = "FILE", default_value = "game.pheap")]
    heap: PathBuf,
    /// Where to listen; with 0, at any port that is free.
    #[arg(long, value_name = "PORT", default_value_t = 8080)]
    port: u16,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = Args::parse();
    let heap = Heap::open(&args.heap)?; // no task runs yet, so this may wait for the disk
    let game: Root<Game> = heap.root("game")?;
    tokio::spawn(end_sessions(game.clone()));
    let listener = TcpListener::bind(("127.0.0.1", args.port)).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let interrupted = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    axum::serve(listener, service(game)).with_graceful_shutdown(interrupted).await?;
    heap.close()?; // the next start then needs no recovery
    Ok(())
}

fn service(game: Root<Game<'static>>) -> Router {
    Router::new()
        .route("/", get(Html(include_str!("page.html"))))
        .route("/board", get(board))
        .route("/login", post(log_in))
        .route("/logout", post(log_out))
        .route("/points", post(add_points))
        .with_state(game)
}

type Store = State<Root<Game<'static>>>;

#[derive(Deserialize)]
struct Player {
    name: String,
}

#[derive(Deserialize)]
struct Points {
    points: u32,
}

#[derive(Deserialize)]
struct Lines {
    lines: Option<usize>,
}

async fn log_in(State(game): Store, Json(Player { name }): Json<Player>) -> Result<Response, Failure> {
    if name.is_empty() || name.len() > 40 {
        return Err(Failure::Name);
    }
    let (token, until) = (random()?, SystemTime::now() + SESSION);
    game.txn_async(move |tx, game| Game::log_in(game, tx, &name, token, until)).await?;
    let cookie = format!("session={token:032x}; Max-Age={}; HttpOnly; SameSite=Strict", SESSION.as_secs());
    Ok(([(SET_COOKIE, cookie)], StatusCode::NO_CONTENT).into_response())
}

async fn log_out(State(game): Store, headers: HeaderMap) -> Result<StatusCode, Failure> {
    let token = session(&headers)?;
    game.txn_async(move |tx, game| Ok(pheap::field!(game.sessions).remove(tx, token).map(drop))).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn add_points(
    State(game): Store,
    headers: HeaderMap,
    Json(Points { points }): Json<Points>,
) -> Result<Json<Line>, Failure> {
    let token = session(&headers)?;
    let line = game.try_txn_async(move |tx, game| {
        let player = tx[game].player(tx, token).ok_or(Failure::Session)?;
        Ok::<Line, Failure>(Game::add_points(game, tx, player, points.into())?)
    });
    Ok(Json(line.await?))
}

async fn board(State(game): Store, Query(Lines { lines }): Query<Lines>) -> Result<Json<Vec<Line>>, Failure> {
    let lines = lines.unwrap_or(10).min(LINES);
    Ok(Json(game.read_async(move |view, game| view[game].best(view, lines)).await?))
}

/// Removes expired sessions every hour, until the heap fails.
async fn end_sessions(game: Root<Game<'static>>) {
    let mut hours = tokio::time::interval(Duration::from_secs(60 * 60));
    loop {
        hours.tick().await;
        let ended = game.txn_async(|tx, game| {
            Game::end_sessions(game, tx, SystemTime::now());
            Ok(())
        });
        if let Err(error) = ended.await {
            return eprintln!("sessions do not end any more: {error}");
        }
    }
}

/// Returns the session token of a request.
fn session(headers: &HeaderMap) -> Result<u128, Failure> {
    let cookies = headers.get(COOKIE).and_then(|cookies| cookies.to_str().ok()).ok_or(Failure::Session)?;
    let token =
        cookies.split("; ").find_map(|cookie| cookie.strip_prefix("session=")).ok_or(Failure::Session)?;
    u128::from_str_radix(token, 16).map_err(|_| Failure::Session)
}

/// Returns a random number that cannot be guessed.
fn random() -> Result<u128, Failure> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(|_| Failure::Random)?;
    Ok(u128::from_ne_bytes(bytes))
}

/// The reason for a refused request.
enum Failure {
    Name,
    Session,
    Random,
    Heap(pheap::Error),
}

impl From<pheap::Error> for Failure {
    fn from(error: pheap::Error) -> Failure {
        Failure::Heap(error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        match self {
            Failure::Name => (StatusCode::BAD_REQUEST, "a name has 1 to 40 bytes").into_response(),
            Failure::Session => (StatusCode::UNAUTHORIZED, "log in first").into_response(),
            Failure::Random => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
            Failure::Heap(error) => {
                eprintln!("the heap refuses: {error}"); // for the operator only, not for clients
                StatusCode::SERVICE_UNAVAILABLE.into_response()
            }
        }
    }
}
