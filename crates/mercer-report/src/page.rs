//! One HTML page in one file: no network, light and dark, readable on a phone.
//!
//! Drawings come from the module of the server's page ([`Drawing`]).

use std::fmt::Write as _;

use crate::drawing::{self, Drawing};
use crate::svg::escape;

/// One answer of many: a picture of its row, if there is one, what is said of it, and how its range closed.
#[derive(Debug)]
pub struct Example {
    /// Its heading.
    pub title: String,
    /// The row as a picture.
    pub picture: Option<Drawing>,
    /// Sentences.
    pub lines: Vec<String>,
    /// Its steps.
    pub path: Drawing,
}

/// A page that grows section by section.
#[derive(Debug)]
pub struct Page {
    title: String,
    body: String,
    has_drawings: bool,
}

const STYLE: &str = ":root{--paper:#fff;--ink:#1d1f22;--soft:#5c636b;--line:#d5dae0;--a:#2a78d6;\
--b:#c2571a;--draw-ink:var(--ink);--draw-faint:#8a9098;--draw-proof:var(--a);--draw-estimate:var(--b);\
--draw-mark:#b3261e}\
@media(prefers-color-scheme:dark){:root{--paper:#16181b;--ink:#e4e6e9;--soft:#9aa2ab;--line:#363b41;\
--a:#6aa9f0;--b:#ee8a4f;--draw-mark:#ff8a80}}\
*{box-sizing:border-box}body{margin:0 auto;padding:16px;max-width:860px;background:var(--paper);\
color:var(--ink);font:16px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}\
h1{font-size:1.5em;line-height:1.2;margin:.3em 0}h2{font-size:1.15em;margin:1.6em 0 .4em;\
border-bottom:1px solid var(--line)}p{margin:.5em 0}.soft{color:var(--soft);font-size:.9em}\
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:10px}\
.card{border:1px solid var(--line);border-radius:8px;padding:10px}.card b{display:block;font-size:1.5em}\
figure{margin:0}figcaption{font-weight:600}.pictures{display:grid;grid-template-columns:repeat(auto-fit,minmax(300px,1fr));gap:16px}\
svg{width:100%;height:auto;font:12px system-ui,sans-serif}svg text{fill:var(--ink)}\
svg .soft{fill:var(--soft)}svg .axis{stroke:var(--line)}\
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.88em;width:100%}\
td,th{border-bottom:1px solid var(--line);padding:4px 8px 4px 0;text-align:left;vertical-align:top}\
td.number,th.number{text-align:right;white-space:nowrap}.steps :is(td,th){white-space:nowrap}code,pre{font-size:.92em}\
@media(max-width:600px){.figures tr{display:flex;flex-wrap:wrap;border-bottom:1px solid var(--line)}\
.figures td,.figures th{border:0}.figures td:first-child,.figures th:first-child{flex:0 0 100%}\
.figures td:not(:first-child),.figures th:not(:first-child){flex:1 1 0;text-align:left;white-space:normal}}\
pre{overflow-x:auto;padding:8px;border:1px solid var(--line);border-radius:8px}\
h3{font-size:1em;margin:0 0 .3em}.examples{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,380px),1fr));gap:14px}\
.example{border:1px solid var(--line);border-radius:8px;padding:12px;min-width:0}.example figcaption{font-weight:400;font-size:.9em}\
.about{display:grid;grid-template-columns:76px 1fr;gap:12px;margin-bottom:8px}.about p{margin:.1em 0}\
.pictures figure{max-width:480px}.pictures svg[shape-rendering]{max-width:180px;border:1px solid var(--line);display:block}\
.about svg{border:1px solid var(--line);display:block}.about figcaption{display:none}\
input[type=range]{width:100%;min-height:2em;margin:0;accent-color:var(--a)}.path .soft{margin:.2em 0}";

impl Page {
    /// An empty page with this title.
    pub fn new(title: &str) -> Self {
        Self { title: escape(title), body: String::new(), has_drawings: false }
    }

    /// Adds markup.
    pub fn add(&mut self, markup: &str) {
        self.body.push_str(markup);
        self.body.push('\n');
    }

    /// Adds a heading.
    pub fn heading(&mut self, text: &str) {
        self.add(&format!("<h2>{}</h2>", escape(text)));
    }

    /// Adds a paragraph of plain text.
    pub fn text(&mut self, text: &str) {
        self.add(&format!("<p>{}</p>", escape(text)));
    }

    /// Adds drawings, side by side where there is space.
    pub fn drawings(&mut self, drawings: &[Drawing]) {
        self.has_drawings = true;
        let figures: String = drawings.iter().map(Drawing::markup).collect();
        self.add(&format!(
            "<div class=\"pictures\">{figures}</div><noscript><p>Drawings need JavaScript; their numbers are in the \
             tables.</p></noscript>"
        ));
    }

    /// Adds answers, side by side where there is space.
    pub fn examples(&mut self, examples: &[Example]) {
        self.has_drawings = true;
        let one = |example: &Example| {
            let Example { title, picture, lines, path } = example;
            let lines: String =
                lines.iter().map(|line| format!("<p>{}</p>", escape(line))).collect();
            let about = match picture {
                Some(picture) => {
                    format!("<div class=\"about\">{}<div>{lines}</div></div>", picture.markup())
                }
                None => lines,
            };
            let (title, path) = (escape(title), path.markup());
            format!("<section class=\"example\"><h3>{title}</h3>{about}{path}</section>")
        };
        let examples: String = examples.iter().map(one).collect();
        self.add(&format!("<div class=\"examples\">{examples}</div>"));
    }

    /// Adds text as a terminal shows it.
    pub fn terminal(&mut self, text: &str) {
        self.add(&format!("<pre tabindex=\"0\">{}</pre>", escape(text)));
    }

    /// Adds a table; columns whose head ends in `#` hold numbers. On a phone those columns are below the first one; where that holds
    /// a number itself the table scrolls.
    pub fn table(&mut self, heads: &[&str], rows: &[Vec<String>]) {
        let class = |head: &str| if head.ends_with('#') { " class=\"number\"" } else { "" };
        let is_number = |head: &&str| head.ends_with('#');
        let kind = match heads.iter().position(is_number) {
            Some(0) => "steps",
            Some(_) => "figures",
            None => "words",
        };
        let mut out = format!("<div class=\"wide\" tabindex=\"0\"><table class=\"{kind}\">");
        if heads.iter().any(|head| !head.is_empty()) {
            out.push_str("<tr>");
            for head in heads {
                let name = escape(head.trim_end_matches('#'));
                // A head without words heads nothing.
                let cell = if name.is_empty() { "td" } else { "th" };
                let _ = write!(out, "<{cell}{}>{name}</{cell}>", class(head));
            }
            out.push_str("</tr>");
        }
        for row in rows {
            out.push_str("<tr>");
            for (head, cell) in heads.iter().zip(row) {
                let _ = write!(out, "<td{}>{}</td>", class(head), escape(cell));
            }
            out.push_str("</tr>");
        }
        out.push_str("</table></div>");
        self.add(&out);
    }

    /// The page as HTML.
    pub fn finish(self) -> String {
        let Self { title, body, has_drawings } = self;
        let script = if has_drawings { drawing::script() } else { String::new() };
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
             <title>{title}</title><style>{STYLE}</style></head><body>\n<main><h1>{title}</h1>\n{body}</main>\
             {script}</body></html>\n"
        )
    }
}
