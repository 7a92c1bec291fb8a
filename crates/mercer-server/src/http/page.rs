//! The page at `/`: plain HTML, CSS and ES modules from the folder `page`, embedded in the program. It uses the addresses of
//! `routes()` and no other; ADR 0057 says why it is made so.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use sha2::{Digest, Sha256};

use super::App;
use crate::failure::{Failure, Kind};

/// The first file; it names the others behind `DIGEST`.
const INDEX: &str = include_str!("../../page/index.html");

macro_rules! files {
    ($($name:literal),* $(,)?) => { [$(($name, include_str!(concat!("../../page/", $name)))),*] };
}

/// The other files of the folder, by name.
const FILES: [(&str, &str); 16] = files![
    "api.js",
    "app.js",
    "batch.js",
    "card.js",
    "dom.js",
    "icon.svg",
    "live.js",
    "maps.js",
    "pad.js",
    "play.js",
    "rows.js",
    "slice.js",
    "style.css",
    "supports.js",
    "votes.js",
    "watch.js",
];
/// The drawings, which reports use as well.
const DRAWINGS: (&str, &str) = ("draw.js", mercer_draw::MODULE);

/// Nothing but what this server sends may run, be shown or be asked; no other page may hold this one.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
    form-action 'none'; base-uri 'none'; frame-ancestors 'none'";

/// All files of the page.
#[derive(Debug)]
pub struct Page {
    /// The index, with the addresses of the other files.
    index: String,
    /// The digest that stands in them.
    digest: String,
    /// The other files, by name.
    files: Vec<(&'static str, &'static str)>,
}

impl Page {
    /// The page with more files.
    pub fn new(more: &[(&'static str, &'static str)]) -> Self {
        let files: Vec<_> = FILES.iter().chain([&DRAWINGS]).chain(more).copied().collect();
        let mut hash = Sha256::new();
        for (name, text) in files.iter().chain([&("index.html", INDEX)]) {
            hash.update(name.as_bytes());
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        }
        let hash = hash.finalize();
        let digest: String = hash[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        Self { index: INDEX.replace("DIGEST", &digest), digest, files }
    }
}

/// The page's addresses.
pub fn add(router: Router<App>) -> Router<App> {
    router.route("/", get(index)).route("/page/{digest}/{name}", get(file))
}

/// Whether an address is one of the page.
pub fn is_page(path: &str) -> bool {
    path == "/" || path.starts_with("/page/")
}

fn of(app: &App) -> Result<&Page, Failure> {
    app.page.as_ref().ok_or_else(|| Failure::new(Kind::NotFound, "there is no page"))
}

async fn index(State(app): State<App>, headers: HeaderMap) -> Result<Response, Failure> {
    let page = of(&app)?;
    let tag = format!("\"{}\"", page.digest);
    let is_known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| known == tag.as_str());
    let mut response = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], page.index.clone()).into_response()
    };
    let tag = HeaderValue::from_str(&tag).expect("hexadecimal digits are a header");
    response.headers_mut().insert(header::ETAG, tag);
    Ok(protected(response, "no-cache"))
}

async fn file(
    State(app): State<App>,
    Path((digest, name)): Path<(String, String)>,
) -> Result<Response, Failure> {
    let page = of(&app)?;
    let found = page.files.iter().find(|(known, _)| *known == name && digest == page.digest);
    let Some((_, text)) = found else {
        return Err(Failure::new(Kind::NotFound, format!("the page has no file '{name}'")));
    };
    let kind = match name.rsplit('.').next() {
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        _ => "image/svg+xml",
    };
    let response = ([(header::CONTENT_TYPE, kind)], *text).into_response();
    // The address changes with the text.
    Ok(protected(response, "public, max-age=31536000, immutable"))
}

fn protected(mut response: Response, caching: &'static str) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CACHE_CONTROL, caching),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// What a phone has to load, at most; the files of `mercer play` have a test of their own.
    const MOST: usize = 150_000;

    #[test]
    fn the_page_is_small() {
        let page = Page::new(&[]);
        let bytes: usize = page.files.iter().map(|(_, text)| text.len()).sum();
        assert!(bytes + INDEX.len() <= MOST, "{bytes} bytes");
    }

    #[test]
    fn all_files_of_the_folder_are_embedded() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/page");
        let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
        let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
        let found: BTreeSet<String> =
            files.map(|entry| entry.file_name().into_string().unwrap()).collect();
        let names = FILES.iter().map(|(name, _)| (*name).to_owned());
        assert_eq!(names.chain(["index.html".to_owned()]).collect::<BTreeSet<_>>(), found);
    }

    #[test]
    fn no_file_names_another_host_or_needs_what_the_policy_forbids() {
        let page = Page::new(&[]);
        for (name, text) in page.files.iter().chain([&("index.html", INDEX)]) {
            let text = text.replace("http://www.w3.org/2000/svg", "");
            for wrong in ["http://", "https://", " style=\"", " onclick=", "eval(", "innerHTML"] {
                assert!(!text.contains(wrong), "{name}: {wrong}");
            }
        }
        let module_of = |line: &str| line.split_once("from './").map(|(_, rest)| rest.to_owned());
        for (name, text) in &page.files {
            for module in text.lines().filter_map(module_of) {
                let module = module.split('\'').next().unwrap();
                assert!(page.files.iter().any(|(known, _)| *known == module), "{name}: {module}");
            }
        }
    }

    #[test]
    fn more_files_make_another_digest() {
        assert_ne!(Page::new(&[]).digest, Page::new(&[("more.js", "")]).digest);
    }
}
