//! The registered name that a wrong name most probably means, for messages about unknown names.

/// `" (did you mean 'rbf'?)"` for the known name nearest to a wrong one, or nothing if none is near.
pub fn suggestion<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(wrong, known).map_or_else(String::new, |name| format!(" (did you mean '{name}'?)"))
}

/// The known name nearest to a wrong one: the same but for case and underscores, or the only one that begins or ends
/// with it (`poly`, `svr`), or the one with the fewest edits, at most one for every three letters.
pub fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wrong = letters(wrong);
    // Longer than any name: nothing is compared.
    if wrong.is_empty() || wrong.len() > 64 {
        return None;
    }
    let known: Vec<(&str, Vec<char>)> =
        known.into_iter().map(|name| (name, letters(name))).collect();
    let limit = wrong.len().div_ceil(3).min(wrong.len() - 1);
    let by_edits = known.iter().map(|(name, letters)| (edits(&wrong, letters), *name));
    let by_edits = by_edits.filter(|(edits, _)| *edits <= limit).min_by_key(|(edits, _)| *edits);
    let contains = |letters: &[char]| letters.starts_with(&wrong) || letters.ends_with(&wrong);
    let mut longer = known.iter().filter(|(_, letters)| wrong.len() >= 3 && contains(letters));
    let only_longer = longer.next().filter(|_| longer.next().is_none()).map(|(name, _)| *name);
    match by_edits {
        Some((0, name)) => Some(name),
        other => only_longer.or(other.map(|(_, name)| name)),
    }
}

fn letters(name: &str) -> Vec<char> {
    name.chars().filter(|c| *c != '_' && *c != '-').map(|c| c.to_ascii_lowercase()).collect()
}

/// Insertions, deletions, replacements and exchanges of neighbours that turn one text into the other.
fn edits(from: &[char], to: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let mut least = (last[j] + usize::from(a != b)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == to[j - 1] && from[i - 1] == *b {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNELS: [&str; 6] = ["linear", "polynomial", "rbf", "sigmoid", "laplacian", "chi2"];

    #[test]
    fn slips_find_their_name() {
        for (wrong, right) in [
            ("rfb", "rbf"),
            ("RBF", "rbf"),
            ("poly", "polynomial"),
            ("polinomial", "polynomial"),
            ("Laplace", "laplacian"),
            ("chi_2", "chi2"),
            ("sigmod", "sigmoid"),
        ] {
            assert_eq!(nearest(wrong, KERNELS), Some(right), "{wrong}");
        }
        assert_eq!(nearest("svr", ["c_svc", "epsilon_svr"]), Some("epsilon_svr"));
        assert_eq!(suggestion("rfb", KERNELS), " (did you mean 'rbf'?)");
    }

    #[test]
    fn what_is_far_from_all_names_has_no_nearest() {
        for wrong in ["wavelet", "x", "", "_", "gaussian"] {
            assert_eq!(nearest(wrong, KERNELS), None, "{wrong}");
        }
        // Two names end so: neither is meant more than the other.
        assert_eq!(nearest("svr", ["epsilon_svr", "another_svr"]), None);
        assert_eq!(nearest(&"r".repeat(10_000), KERNELS), None);
    }

    #[test]
    fn edits_are_symmetric_and_count_exchanges_once() {
        let letters = |text: &str| text.chars().collect::<Vec<_>>();
        for (a, b, count) in [("rbf", "rfb", 1), ("gama", "gamma", 1), ("", "abc", 3)] {
            assert_eq!(edits(&letters(a), &letters(b)), count);
            assert_eq!(edits(&letters(b), &letters(a)), count);
        }
    }
}
