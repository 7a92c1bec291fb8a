//! Rust source files, read roughly: enough to count braces and find words, without a parser.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// All `.rs` files below a folder, sorted; `target` and hidden folders are left out.
pub fn rust_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries =
            fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            if entry.file_type()?.is_dir() {
                if name != "target" && !name.starts_with('.') {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// The code alone: comments and the insides of strings and characters become spaces, character by
/// character, so that places and line numbers stay.
pub fn code_only(text: &str) -> Vec<char> {
    let mut code: Vec<char> = text.chars().collect();
    let mut at = 0;
    while at < code.len() {
        let end = end_of_passive(&code, at);
        for place in &mut code[at..end] {
            if *place != '\n' {
                *place = ' ';
            }
        }
        at = end.max(at + 1);
    }
    code
}

/// Where the comment, string or character that starts at `at` ends; `at` itself if none starts.
fn end_of_passive(code: &[char], at: usize) -> usize {
    let next = code.get(at + 1).copied();
    match code[at] {
        '/' if next == Some('/') => find(code, at, '\n'),
        '/' if next == Some('*') => end_of_block_comment(code, at),
        '"' => end_of_quoted(code, at + 1, '"'),
        '\'' if next == Some('\\') => end_of_quoted(code, at + 1, '\''),
        '\'' if code.get(at + 2) == Some(&'\'') => at + 3,
        'r' if at == 0 || !is_word(code[at - 1]) || is_raw_prefix(code, at) => {
            end_of_raw_string(code, at).unwrap_or(at)
        }
        _ => at,
    }
}

/// Whether the `r` at `at` follows a lone `b` or `c`, as in `br"…"`.
fn is_raw_prefix(code: &[char], at: usize) -> bool {
    matches!(code[at - 1], 'b' | 'c') && (at == 1 || !is_word(code[at - 2]))
}

fn end_of_block_comment(code: &[char], start: usize) -> usize {
    let mut depth = 0_usize;
    let mut at = start;
    while at + 1 < code.len() {
        match (code[at], code[at + 1]) {
            ('/', '*') => depth += 1,
            ('*', '/') => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    code.len()
}

fn end_of_quoted(code: &[char], start: usize, quote: char) -> usize {
    let mut at = start;
    while at < code.len() && code[at] != quote {
        at += if code[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(code.len())
}

/// The end of `r"…"` or `r#"…"#`; none if the `r` at `at` starts something else.
fn end_of_raw_string(code: &[char], at: usize) -> Option<usize> {
    let hashes = code[at + 1..].iter().take_while(|&&c| c == '#').count();
    let mut quote = at + 1 + hashes;
    if code.get(quote) != Some(&'"') {
        return None;
    }
    loop {
        quote = find(code, quote + 1, '"');
        let tail = code[(quote + 1).min(code.len())..].iter().take_while(|&&c| c == '#').count();
        if quote == code.len() || tail >= hashes {
            return Some((quote + 1 + hashes).min(code.len()));
        }
    }
}

fn find(code: &[char], start: usize, wanted: char) -> usize {
    let start = start.min(code.len());
    code[start..].iter().position(|&c| c == wanted).map_or(code.len(), |offset| start + offset)
}

/// Whether a character can be part of a word.
pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Where each occurrence of `word` as a whole word starts.
pub fn find_word(code: &[char], word: &str) -> Vec<usize> {
    let word: Vec<char> = word.chars().collect();
    let starts = code.windows(word.len()).enumerate().filter(|(_, window)| *window == word);
    starts
        .map(|(start, _)| start)
        .filter(|&start| start == 0 || !is_word(code[start - 1]))
        .filter(|&start| !code.get(start + word.len()).is_some_and(|&c| is_word(c)))
        .collect()
}

/// The number of the line on which a place is, from 1.
pub fn line_of(code: &[char], place: usize) -> usize {
    1 + code[..place].iter().filter(|&&c| c == '\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> String {
        let code: String = code_only(text).into_iter().collect();
        code.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_and_strings_are_not_code() {
        assert_eq!(words("a // b\nc /* d /* e */ f */ g"), "a c g");
        assert_eq!(words(r#"a "b \" c" d"#), "a d");
        assert_eq!(words(r###"a r##"b "# c"## d br"e" f"###), "a d b f");
        assert_eq!(words("a 'b' '\\'' '{' c"), "a c");
    }

    #[test]
    fn lifetimes_and_raw_names_are_code() {
        assert_eq!(words("fn f<'a>(x: &'a str) {}"), "fn f<'a>(x: &'a str) {}");
        assert_eq!(words("r#type + for_r"), "r#type + for_r");
    }

    #[test]
    fn unfinished_text_ends_at_the_end() {
        for text in ["/* a", "\"a", "\"a\\", "r#\"a\"", "'\\", "r", "'", "/"] {
            assert_eq!(code_only(text).len(), text.chars().count(), "{text}");
        }
    }

    #[test]
    fn only_whole_words_are_found() {
        let code = code_only("fn unfn fn_ fn");
        assert_eq!(find_word(&code, "fn"), [0, 12]);
        assert_eq!(line_of(&code_only("a\nb\nc"), 4), 3);
    }
}
