//! Tests of pages and figures with adversarial names: no name adds a tag.

use super::*;
use crate::{Bar, Drawing, Page};
use mercer_testkit::names::ADVERSARIAL;

/// The tags of a page, with the text of labels taken out: what the writer itself wrote. A quote in a label that is not
/// escaped would end it early and leave its rest.
fn tags(markup: &str) -> Vec<String> {
    const LABEL: &str = "aria-label=\"";
    tags_of(markup)
        .map(|tag| match tag.split_once(LABEL) {
            Some((start, rest)) => {
                format!("{start}{LABEL}{}", &rest[rest.find('"').expect("labels end")..])
            }
            None => tag.to_owned(),
        })
        .collect()
}

/// What stands between `<` and `>`; as in a browser, a script is text up to the first `</script`.
fn tags_of(markup: &str) -> impl Iterator<Item = &str> {
    let mut rest = markup;
    std::iter::from_fn(move || {
        let (_, after) = rest.split_once('<')?;
        let (tag, after) = after.split_once('>').expect("tags end");
        let is_script = tag.split(' ').next() == Some("script");
        rest =
            if is_script { &after[after.find("</script").expect("scripts end")..] } else { after };
        Some(tag)
    })
}

#[test]
fn adversarial_names_add_no_tag_to_a_page_or_a_figure() {
    let page = |name: &str| {
        let mut page = Page::new(name);
        page.heading(name);
        page.text(name);
        page.terminal(name);
        page.table(&[name, "count#"], &[vec![name.to_owned(), name.to_owned()]]);
        let bar = Bar { name: name.to_owned(), value: 1.0, text: name.to_owned() };
        let dots = Series::dots(name, vec![(0.5, 1.0)]);
        page.drawings(&[Drawing::bars(name, &[bar]), Drawing::scatter(name, name, name, &[dots])]);
        page.finish()
    };
    let figure = |name: &str| {
        let line = Series::line(name, vec![(0.0, 1.0), (1.0, 2.0)]);
        let band =
            [Band { x: 1.0, low: 0.0, high: 1.0 }, Band { x: 2.0, low: 0.2, high: 0.8 }].to_vec();
        bands(name, name, name, &[band]) + &lines(name, name, &[line])
    };
    for name in ADVERSARIAL {
        for markup in [page(name), figure(name)] {
            let plain =
                if markup.starts_with("<!doctype") { page("plain") } else { figure("plain") };
            assert_eq!(tags(&markup), tags(&plain), "{name:?}");
            let controls = |c: char| c.is_control() && c != '\n' && c != '\t';
            assert!(!markup.contains(controls), "{name:?}");
        }
    }
}

#[test]
fn markup_is_escaped_and_lines_are_kept() {
    assert_eq!(escape("a<b>&\"c\"'\n\td\u{1b}"), "a&lt;b&gt;&amp;&quot;c&quot;&#39;\n\td\\u001b");
}
