//! Damaged files: cut, flipped, spliced, repeated, with large numbers. The tests that use them are
//! `tests/mutations.rs` of the crates that read files.

use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::BuildHasher;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Counts every byte a test program asks for: make it the `#[global_allocator]`.
pub use peak_alloc::PeakAlloc;

/// Memory beyond the file's size that a reader may take.
const MEMORY: u64 = 64 << 20;

/// How many variants of each format: the environment variable `MERCER_MUTATIONS`, or 5,000.
pub fn count() -> usize {
    from_environment("MERCER_MUTATIONS").unwrap_or(5_000)
}

/// The seed of the variants: the environment variable `MERCER_MUTATION_SEED`, or a new one.
fn seed() -> u64 {
    from_environment("MERCER_MUTATION_SEED").unwrap_or_else(|| RandomState::new().hash_one(()))
}

fn from_environment<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Prints how to repeat a failure.
struct OnFailure<'a> {
    name: &'a str,
    seed: u64,
    variant: usize,
}

impl Drop for OnFailure<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self { name, seed, variant } = self;
            println!(
                "{name}: variant {variant} of seed {seed}; MERCER_MUTATION_SEED={seed} repeats it"
            );
        }
    }
}

/// Reads [`count`] damaged variants of a good file. `read` checks what it reads and returns the text of the
/// error otherwise; it must not panic. No variant may make the program allocate more than 64 MiB beyond the
/// size of the variant, nor the process grow by that much: the latter also counts libraries written in C.
/// The seed is new in each run and printed if the test fails.
///
/// # Panics
/// If a reader breaks a rule.
pub fn survive(
    name: &str,
    good: &[u8],
    heap: &PeakAlloc,
    read: impl Fn(Vec<u8>) -> Result<(), String>,
) {
    if let Err(error) = read(good.to_vec()) {
        panic!("{name}: the file is refused before it is damaged: {error}");
    }
    forget_peak();
    let (start, count, seed) = (peak(), count(), seed());
    let mut on_failure = OnFailure { name, seed, variant: 0 };
    let (mut refused, mut most) = (0, 0);
    for bytes in variants(good, seed).take(count) {
        on_failure.variant += 1;
        let size = bytes.len() as u64;
        let before = heap.current_usage();
        heap.reset_peak_usage();
        if let Err(error) = read(bytes) {
            refused += 1;
            assert!(!error.is_empty(), "{name}: an error without text");
        }
        let asked = heap.peak_usage().saturating_sub(before) as u64;
        most = most.max(asked);
        assert!(asked < size + MEMORY, "{name}: a file of {size} bytes took {} MiB", asked >> 20);
    }
    assert!(refused > count / 20, "{name}: only {refused} of {count} refused");
    let mut grown = String::new();
    if let (Some(start), Some(end)) = (start, peak()) {
        let more = end.saturating_sub(start);
        assert!(more < MEMORY, "{name}: {} MiB more", more >> 20);
        grown = format!(", the process grew by {:.1}", more as f64 / f64::from(1 << 20));
    }
    let most = most as f64 / f64::from(1 << 20);
    println!("{name}: {refused} of {count} refused; at most {most:.1} MiB asked for{grown}");
}

/// Damaged variants of a file, without end; the same ones for the same seed.
pub fn variants(good: &[u8], seed: u64) -> impl Iterator<Item = Vec<u8>> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    std::iter::repeat_with(move || mutate(good, &mut rng))
}

/// One damaged variant.
fn mutate(bytes: &[u8], rng: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    let mut out = bytes.to_vec();
    for _ in 0..rng.random_range(1..4) {
        if out.is_empty() {
            break;
        }
        let at = rng.random_range(0..out.len());
        let end = (at + rng.random_range(1..24)).min(out.len());
        match rng.random_range(0..7) {
            0 => out.truncate(at),
            1 => out[at] ^= 1 << rng.random_range(0..8),
            2 => out[at] = rng.random(),
            3 => {
                let piece = out[at..end].to_vec();
                let to = rng.random_range(0..=out.len());
                out.splice(to..to, piece);
            }
            4 => {
                out.drain(at..end);
            }
            5 => {
                let large: [&[u8]; 5] =
                    [b"99999999999", b"4294967294", b"1e999", b"-", &[0xff, 0xff, 0xff, 0xff]];
                let piece = large[rng.random_range(0..large.len())];
                out.splice(at..at, piece.iter().copied());
            }
            _ => out[at..end].fill([0u8, 0xff, b'9', b'\n'][rng.random_range(0..4)]),
        }
    }
    out
}

/// Makes the largest resident size the present one, where the system allows it.
fn forget_peak() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// The largest resident size so far, where the system tells.
fn peak() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? << 10)
}
