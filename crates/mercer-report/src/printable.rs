//! Text from files that is safe to show: on a terminal, in a page, in a figure. How markup is escaped is in `svg.rs`.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The text without characters that move the cursor, change colours or hide and reorder other characters: they are
/// replaced by their escapes, as `\n` and `\u001b`.
///
/// These are escapes of JSON too, so that JSON stays JSON of the same values. A text without such characters is
/// returned as it is; backslashes are not doubled.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            other if is_unsafe(other) => {
                for unit in other.encode_utf16(&mut [0; 2]) {
                    let _ = write!(shown, "\\u{unit:04x}");
                }
            }
            plain => shown.push(plain),
        }
    }
    Cow::Owned(shown)
}

/// Control characters, direction marks, separators of lines, and characters without a shape.
fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use mercer_testkit::names::ADVERSARIAL;

    #[test]
    fn no_adversarial_name_keeps_a_control_character_and_json_keeps_its_values() {
        for name in ADVERSARIAL {
            let shown = printable(name);
            assert!(!shown.contains(is_unsafe), "{name:?}");
            let json = serde_json::json!({ "name": name }).to_string();
            let read: serde_json::Value = serde_json::from_str(&printable(&json)).unwrap();
            assert_eq!(read["name"], *name);
        }
    }

    #[test]
    fn ordinary_text_is_not_changed() {
        for text in ["", "plain", "C:\\folder", "Größe 漢字 𝒳 👩‍🔬", "a\u{301}"] {
            assert!(matches!(printable(text), Cow::Borrowed(same) if same == text));
        }
        assert_eq!(
            printable("a\u{1b}[2J\u{9b}\u{202e}\u{e0041}\n"),
            "a\\u001b[2J\\u009b\\u202e\\udb40\\udc41\\n"
        );
    }
}
