//! Names that try to be more than names: labels, columns and files that every writer and every message must survive.

/// Adversarial names, each different from the others.
pub const ADVERSARIAL: &[&str] = &[
    // Ends of strings and comments, formats, line splices and trigraphs of C.
    "\"; int system(const char *); /*",
    "*/ int injected = 1; /*",
    "// line\\",
    "\\\"",
    "\\",
    "??/",
    "%s%n%p",
    "'",
    "\"",
    // Markup.
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "]]></text><script xlink:href='x'/>",
    "' onload='alert(1)",
    "&lt;&#60;&",
    "-->",
    // Escapes of terminals: clear, title, colour, eight-bit forms, rubout.
    "\u{1b}[2J\u{1b}]0;title\u{7}",
    "\u{1b}[31mred\u{1b}[0m",
    "\u{9b}31m\u{9d}0;x\u{9c}",
    "\u{8}\u{8}\u{8}\u{7f}",
    // Ends of lines and fields.
    "two\nlines",
    "two\r\nlines",
    "back\rto the start",
    "tab\tbed",
    "\u{2028}\u{2029}\u{85}\u{b}\u{c}",
    "a,b;c",
    " spaces around ",
    "#comment",
    "=1+1",
    "1:2",
    // Direction marks and characters without a shape.
    "\u{202e}cod.exe",
    "\u{200f}\u{2067}rtl\u{2069}",
    "\u{feff}mark\u{200b}ed",
    "\u{e0041}tag",
    // End of a C string.
    "nul\0byte",
    // Texts that look like numbers and change if they become one.
    "007",
    "1.50",
    "1e3",
    "0x10",
    "NaN",
    "inf",
    "-0",
    "9007199254740993",
    "-9223372036854775808",
    "18446744073709551615",
    // Paths and words of formats.
    "../../etc/passwd",
    "label",
    "SV",
    "null",
    "é",
    "e\u{301}",
    "漢字 👩‍🔬",
];

#[cfg(test)]
mod tests {
    use super::ADVERSARIAL;

    #[test]
    fn names_differ() {
        let different: std::collections::BTreeSet<_> = ADVERSARIAL.iter().collect();
        assert_eq!(different.len(), ADVERSARIAL.len());
    }
}
