//! The initial heaps of programs.

use super::{Calls, Opening, Run, Trace, catching};
use crate::medium::Content;
use crate::model::State;
use crate::program::{Change, One, Op, Program, Setting, USED, Which};

/// Runs a program. Returns its record.
pub fn run(program: &Program, ready: &Ready) -> Result<Trace, String> {
    start(program, ready)?.finish()
}

/// Runs a program. Returns the number of its calls of each kind on each file.
pub fn calls(program: &Program, ready: &Ready) -> Result<Calls, String> {
    Ok(start(program, ready)?.all_calls())
}

fn start(program: &Program, ready: &Ready) -> Result<Run, String> {
    let setting = program.setting;
    let (mut content, state) = match setting {
        Setting { empty: true, .. } => Default::default(),
        Setting { crashed: true, .. } => ready[3].clone(),
        Setting { eager: true, .. } => ready[2].clone(),
        Setting { swapped, .. } => ready[usize::from(swapped)].clone(),
    };
    if setting.wal {
        content = content.on_disk();
    }
    let mut run = Run::open(Opening::of(program), content, Some(state), 1)?;
    program.ops.iter().try_for_each(|&op| run.op(op))?;
    Ok(run)
}

/// The initial content of media for programs whose setting is not `empty`: heaps of two roots, and their
/// states. In the second heap the second root was created first. The third heap is [used](Setting::is_used).
/// The fourth is used and was not closed.
pub type Ready = [(Content, State); 4];

/// Makes the initial heaps of programs.
pub fn ready() -> Result<Ready, String> {
    let make = |ops: &[Op], closes: bool| {
        let mut run = Run::open(Setting::default(), Content::default(), None, 0)?;
        ops.iter().try_for_each(|&op| run.op(op))?;
        let state = run.state.clone();
        Ok::<_, String>((if closes { run.close()? } else { run.durable() }, state))
    };
    let [a, b] = [Change::CreateA, Change::Create].map(Op::Change);
    let one = |one: One, which: Which, times: usize| vec![Op::One(one, which); times];
    let [of_a, of_b] = USED;
    let used = [
        vec![a, b],
        one(One::Push, Which::A, of_a + 1),
        one(One::Pop, Which::A, 1),
        one(One::Big, Which::A, 2),
        one(One::Push, Which::B, of_b),
        one(One::Replace, Which::B, 1),
    ]
    .concat();
    Ok([make(&[a, b], true)?, make(&[b, a], true)?, make(&used, true)?, make(&used, false)?])
}

impl Run {
    /// Closes the heap. Returns the content of the medium.
    fn close(mut self) -> Result<Content, String> {
        let heap = self.let_go().expect("it is open");
        catching(|| heap.close().map_err(|error| format!("closing fails: {error}")))?;
        Ok(self.durable())
    }
}
