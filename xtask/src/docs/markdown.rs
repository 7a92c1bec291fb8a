//! Markdown, read roughly: titles, anchors of headings, and links outside code. Not a parser.

use std::collections::HashMap;

/// A link or a path in code, with its line (from 1).
#[derive(Debug, PartialEq, Eq)]
pub struct Link {
    pub line: usize,
    pub target: String,
}

/// The text of the first heading.
pub fn title(text: &str) -> Option<String> {
    let heading = outside_fences(text).find_map(|(_, line)| line.strip_prefix("# "))?;
    Some(heading.trim().to_owned())
}

/// The anchors of all headings: lower case, spaces become `-`, other punctuation is dropped; repeated ones are numbered.
pub fn anchors(text: &str) -> Vec<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let headings = outside_fences(text).filter_map(|(_, line)| {
        let rest = line.trim_start_matches('#');
        (rest.len() < line.len() && rest.starts_with(' ')).then(|| anchor(rest.trim()))
    });
    let numbered = headings.map(|anchor| {
        let count = seen.entry(anchor.clone()).or_insert(0);
        *count += 1;
        if *count == 1 { anchor } else { format!("{anchor}-{}", *count - 1) }
    });
    numbered.collect()
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter_map(|c| match c {
        c if c.is_alphanumeric() || c == '_' || c == '-' => Some(c),
        c if c.is_whitespace() => Some('-'),
        _ => None,
    });
    kept.collect::<String>().to_lowercase()
}

/// Targets of `[text](target)` outside code.
pub fn links(text: &str) -> Vec<Link> {
    let mut found = Vec::new();
    for (number, line) in outside_fences(text) {
        let line = without_code(line);
        let mut rest = line.as_str();
        while let Some(place) = rest.find("](") {
            rest = &rest[place + 2..];
            let Some(end) = rest.find(')') else { break };
            let target = rest[..end].split(" \"").next().unwrap_or_default();
            found.push(Link { line: number, target: target.to_owned() });
            rest = &rest[end..];
        }
    }
    found
}

/// Spans of code, without the backticks.
pub fn code_spans(text: &str) -> Vec<Link> {
    let spans = outside_fences(text).flat_map(|(number, line)| {
        let inside = line.split('`').skip(1).step_by(2);
        inside.map(move |span| Link { line: number, target: span.to_owned() }).collect::<Vec<_>>()
    });
    spans.collect()
}

/// Applies a function to the target of every link outside code.
pub fn map_links(text: &str, change: impl Fn(&str) -> String) -> String {
    let outside: Vec<usize> = outside_fences(text).map(|(number, _)| number).collect();
    let lines = text.lines().enumerate().map(|(place, line)| {
        if outside.binary_search(&(place + 1)).is_err() {
            return line.to_owned();
        }
        map_line(line, &change)
    });
    lines.map(|line| line + "\n").collect()
}

fn map_line(line: &str, change: &impl Fn(&str) -> String) -> String {
    let (mut done, mut rest) = (String::new(), line);
    // Places are the same in both: code becomes spaces, byte by byte.
    let mut masked = without_code(line);
    while let Some(place) = masked.find("](") {
        let Some(end) = masked[place..].find(')').map(|end| place + end) else { break };
        done.push_str(&rest[..place + 2]);
        done.push_str(&change(&rest[place + 2..end]));
        rest = &rest[end..];
        masked = masked.split_off(end);
    }
    done + rest
}

/// A line whose spans of code became spaces.
fn without_code(line: &str) -> String {
    let mut is_code = false;
    let mut masked = String::with_capacity(line.len());
    for c in line.chars() {
        if c == '`' {
            is_code = !is_code;
        }
        if is_code || c == '`' {
            masked.extend(std::iter::repeat_n(' ', c.len_utf8()));
        } else {
            masked.push(c);
        }
    }
    masked
}

/// Lines outside fenced code, numbered from 1.
fn outside_fences(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_inside = false;
    text.lines().enumerate().filter_map(move |(place, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_inside ^= is_fence;
        (!is_inside && !is_fence).then_some((place + 1, line))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# A `b`: c\n\n[x](y.md) `[no](code.md)` and [z](../a.md#b \"t\")\n```\n\
                        # not a heading [n](o.md)\n```\n## Again\n## Again\n";

    #[test]
    fn links_are_found_outside_code() {
        let link = |line, target: &str| Link { line, target: target.to_owned() };
        assert_eq!(links(PAGE), [link(3, "y.md"), link(3, "../a.md#b")]);
        let spans = code_spans(PAGE);
        assert_eq!(spans, [link(1, "b"), link(3, "[no](code.md)")]);
    }

    #[test]
    fn links_are_changed_outside_code_only() {
        let changed = map_links(PAGE, |target| target.replace(".md", ".html"));
        assert!(changed.contains("[x](y.html) `[no](code.md)` and [z](../a.html#b \"t\")"));
        assert!(changed.contains("# not a heading [n](o.md)"));
        assert_eq!(map_links(PAGE, str::to_owned), PAGE);
    }

    #[test]
    fn headings_have_titles_and_anchors() {
        assert_eq!(title(PAGE).as_deref(), Some("A `b`: c"));
        assert_eq!(anchors(PAGE), ["a-b-c", "again", "again-1"]);
    }
}
