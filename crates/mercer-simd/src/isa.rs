//! Which instruction set runs: detection, names, and the only calls into vector code.

#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "the calls from safe code into functions with target features")
)]

use std::fmt;
use std::sync::OnceLock;

use crate::scalar;
use crate::vector::Task;
#[cfg(target_arch = "x86_64")]
use crate::{avx2, avx512};

/// An instruction set that this processor supports.
///
/// A value exists only after detection, so holding one is the proof every vector call needs. The
/// choice changes speed, never a bit of a result.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Isa(Level);

#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Level {
    Scalar,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni,
}

impl Isa {
    /// Plain Rust without target features: the specification of all the others.
    pub const SCALAR: Isa = Isa(Level::Scalar);

    /// The fastest instruction set of this processor.
    pub fn best() -> Isa {
        Isa::available().last().copied().unwrap_or(Isa::SCALAR)
    }

    /// All instruction sets of this processor, from scalar to the best.
    pub fn available() -> &'static [Isa] {
        static AVAILABLE: OnceLock<Vec<Isa>> = OnceLock::new();
        AVAILABLE.get_or_init(detect)
    }

    /// The instruction set of this name, if this processor has it.
    pub fn named(name: &str) -> Option<Isa> {
        Isa::available().iter().copied().find(|isa| isa.name() == name)
    }

    /// The best instruction set, or the lower one named by the environment variable `MERCER_ISA`.
    ///
    /// The variable is read once; a name that is unknown or unsupported here is ignored, as
    /// [`Isa::check_environment`] tells.
    pub fn current() -> Isa {
        static CURRENT: OnceLock<Isa> = OnceLock::new();
        *CURRENT.get_or_init(|| Isa::requested().unwrap_or_default().unwrap_or_else(Isa::best))
    }

    /// Whether the environment variable `MERCER_ISA`, if it is set, names an instruction set of this processor.
    ///
    /// # Errors
    /// A sentence if it does not.
    pub fn check_environment() -> Result<(), String> {
        Isa::requested().map(|_| ()).map_err(|name| {
            let known: Vec<&str> = Isa::available().iter().map(|isa| isa.name()).collect();
            let known = known.join(", ");
            format!("MERCER_ISA is {name:?}; this processor has {known}")
        })
    }

    /// The instruction set that `MERCER_ISA` names, if it is set; its text if there is none.
    fn requested() -> Result<Option<Isa>, String> {
        match std::env::var_os("MERCER_ISA") {
            None => Ok(None),
            Some(name) => {
                let name = name.to_string_lossy().into_owned();
                Isa::named(name.trim()).map(Some).ok_or(name)
            }
        }
    }

    /// `scalar`, `avx2`, `avx512` or `avx512vnni`.
    pub fn name(self) -> &'static str {
        match self.0 {
            Level::Scalar => "scalar",
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => "avx512",
            #[cfg(target_arch = "x86_64")]
            Level::Avx512Vnni => "avx512vnni",
        }
    }

    /// Runs a task compiled for this instruction set.
    pub(crate) fn run<T: Task>(self, task: T) -> T::Output {
        match self.0 {
            Level::Scalar => scalar::run(task),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `detect` made this value only after finding every feature of `avx2::run`.
            Level::Avx2 => unsafe { avx2::run(task) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `detect` made this value only after finding every feature of `avx512::run`.
            Level::Avx512 => unsafe { avx512::run(task) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `detect` made this value only after finding every feature of `run_vnni`, of which `run` needs a part.
            Level::Avx512Vnni => unsafe {
                if T::USES_BYTES { avx512::run_vnni(task) } else { avx512::run(task) }
            },
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn detect() -> Vec<Isa> {
    let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    let avx512 = avx2
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl");
    let vnni = avx512 && is_x86_feature_detected!("avx512vnni");
    let mut found = vec![Isa(Level::Scalar)];
    found.extend(avx2.then_some(Isa(Level::Avx2)));
    found.extend(avx512.then_some(Isa(Level::Avx512)));
    found.extend(vnni.then_some(Isa(Level::Avx512Vnni)));
    found
}

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> Vec<Isa> {
    vec![Isa(Level::Scalar)]
}

impl fmt::Debug for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Isa({})", self.name())
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::Isa;

    #[test]
    fn the_list_rises_from_scalar_to_best() {
        let all = Isa::available();
        assert_eq!(all[0], Isa::SCALAR);
        assert_eq!(all[all.len() - 1], Isa::best());
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn every_name_finds_its_instruction_set() {
        for &isa in Isa::available() {
            assert_eq!(Isa::named(isa.name()), Some(isa));
            assert_eq!(format!("{isa} {isa:?}"), format!("{0} Isa({0})", isa.name()));
        }
        assert_eq!(Isa::named("abacus"), None);
        assert!(Isa::available().contains(&Isa::current()));
    }
}
