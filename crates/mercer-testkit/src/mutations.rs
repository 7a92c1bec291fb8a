//! Damaged files: cut, flipped, spliced, repeated, with large numbers.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Memory beyond the file's size that a reader may take.
const MEMORY: u64 = 64 << 20;

/// How many variants of each kind: `MERCER_MUTATIONS`, or 100,000.
pub fn count() -> usize {
    let told = std::env::var("MERCER_MUTATIONS").ok().and_then(|text| text.parse().ok());
    told.unwrap_or(100_000)
}

/// Reads [`count`] damaged variants of a good file. `read` checks what it reads and returns the text of the
/// error otherwise; it must not panic. The process must not grow by more than 64 MiB.
///
/// # Panics
/// If a reader breaks a rule.
pub fn survive(name: &str, good: &[u8], read: impl Fn(Vec<u8>) -> Result<(), String>) {
    if let Err(error) = read(good.to_vec()) {
        panic!("{name}: the file is refused before it is damaged: {error}");
    }
    let (start, count) = (peak(), count());
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
    let mut refused = 0;
    for _ in 0..count {
        if let Err(error) = read(mutate(good, &mut rng)) {
            refused += 1;
            assert!(!error.is_empty(), "{name}: an error without words");
        }
    }
    assert!(refused > count / 20, "{name}: only {refused} of {count} refused");
    if let (Some(start), Some(end)) = (start, peak()) {
        assert!(end - start < MEMORY, "{name}: {} MiB more", (end - start) >> 20);
    }
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

/// The largest resident size so far, where the system tells.
pub fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? << 10)
}
