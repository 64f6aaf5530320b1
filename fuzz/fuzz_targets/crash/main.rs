//! Runs programs on a simulated medium, and crashes them. The input describes both as text; see
//! `pheap_crash::steered`.
//!
//! The fuzzer keeps inputs that reach new code. It also keeps inputs with a new combination of a crash, its
//! outcome and the operations around it.

#![no_main]

use std::cell::RefCell;
use std::hash::{DefaultHasher, Hash, Hasher};

use libfuzzer_sys::{fuzz_crossover, fuzz_mutator, fuzz_target, fuzzer_mutate};
use pheap_crash::steered::Words;
use pheap_crash::{Script, Steered};
use pheap_testkit::Rng;

thread_local! {
    static STEERED: Steered = {
        pheap_fuzz::tell_sanitizer();
        Steered::new().expect("empty heaps can be made")
    };
    static WORDS: Words = Words::new();
}

fuzz_target!(|text: &[u8]| {
    let script = script(text);
    match STEERED.with(|steered| steered.run(&script)) {
        Ok(survived) => {
            for (i, crash) in survived.iter().enumerate() {
                count(&(crash, survived[..i].last().map(|before| before.op)));
            }
            script.program.ops.windows(2).for_each(|pair| count(&(pair, script.program.setting)));
        }
        Err(broken) => panic!("{broken}"),
    }
});

// Most mutations change operations and crashes. Some change the text as bytes, to reach inputs that the
// others cannot make.
fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut rng = Rng::new(&[seed.into()]);
    if rng.chance(24) {
        return fuzzer_mutate(data, size, max_size);
    }
    let mut script = script(&data[..size]);
    WORDS.with(|words| (0..=rng.below(4)).for_each(|_| script.mutate(words, &mut rng)));
    write(&script, &mut data[..max_size])
});

fuzz_crossover!(|a: &[u8], b: &[u8], out: &mut [u8], seed: u32| {
    let mut rng = Rng::new(&[seed.into()]);
    write(&script(a).cross(&script(b), &mut rng), out)
});

fn script(text: &[u8]) -> Script {
    Script::parse(&String::from_utf8_lossy(text))
}

/// Writes as much of the text as `out` has room for. Returns the number of bytes.
fn write(script: &Script, out: &mut [u8]) -> usize {
    let text = script.to_string();
    let len = text.len().min(out.len());
    out[..len].copy_from_slice(&text.as_bytes()[..len]);
    len
}

/// Number of the counters that libFuzzer reads in addition to those of the code.
const COUNTERS: usize = 1 << 14;

#[unsafe(link_section = "__libfuzzer_extra_counters")]
static mut SEEN: [u8; COUNTERS] = [0; COUNTERS];

fn count(what: &impl Hash) {
    thread_local! {
        static HASHER: RefCell<DefaultHasher> = RefCell::new(DefaultHasher::new());
    }
    let mut hasher = HASHER.with_borrow(DefaultHasher::clone);
    what.hash(&mut hasher);
    let at = hasher.finish() as usize % COUNTERS;
    // SAFETY: `at` is less than `COUNTERS`. libFuzzer reads and clears the counters between two runs of the
    // target, on the same thread.
    unsafe { (&raw mut SEEN).cast::<u8>().add(at).write(1) };
}
