//! The report of a compression: JSON, a figure and a page.
//!
//! How a machine is compressed is in `mercer::compile::compress`.

use mercer::compile::CompressionReport;
use mercer::compile::compress::{CurvePoint, SampleAgreement, Tube};
use serde_json::{Value, json};

use crate::svg::{self, Series};
use crate::{Drawing, Page};

/// The report as a JSON object.
pub fn object(report: &CompressionReport, seconds: f64) -> Value {
    let CompressionReport { method, before, after, error, agreement, tube, curve } = report;
    let point = |point: &CurvePoint| {
        json!({
            "size": point.size, "relative_error": point.error,
            "agreement": point.agreement.as_ref().map(sample_object),
        })
    };
    let curve: Vec<Value> = curve.iter().map(point).collect();
    json!({
        "method": method, "before": before, "after": after, "seconds": seconds,
        "weight_error": {
            "absolute": error.absolute, "relative": error.relative,
            "rounding_of_square": error.rounding, "offset": error.offset,
        },
        "agreement": agreement.as_ref().map(sample_object), "tube": tube.as_ref().map(tube_object),
        "curve": curve,
    })
}

fn sample_object(agreement: &SampleAgreement) -> Value {
    json!({
        "queries": agreement.queries, "disagreements": agreement.disagreements,
        "disagreement_rate": agreement.disagreement(), "largest_difference": agreement.largest_difference,
        "certified_share": agreement.certified_share(),
    })
}

fn tube_object(tube: &Tube) -> Value {
    json!({
        "eps": tube.eps, "largest_error": tube.achieved, "rows": tube.rows, "reason": tube.reason,
    })
}

/// The accuracy that was asked for and the one that was achieved, in one sentence.
pub fn tube_sentence(tube: &Tube) -> String {
    let Tube { eps, achieved, rows, reason } = tube;
    let reason = reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"));
    format!("eps {eps:.3e} asked, {achieved:.3e} achieved at {rows} rows{reason}")
}

/// Labels and scores of the two machines on a sample, in one sentence.
pub fn sentence(agreement: &SampleAgreement) -> String {
    let SampleAgreement { queries, disagreements, largest_difference, .. } = agreement;
    let proved = agreement.certified_share().map_or(String::new(), |share| {
        format!("; the compressed machine certifies {:.2} % of the labels", 100.0 * share)
    });
    format!(
        "{disagreements} of {queries} labels disagree with exact; scores differ by at most {largest_difference:.3e}{proved}"
    )
}

/// Sizes to show: those that were compared on a sample, and about twelve others.
pub fn shown(curve: &[CurvePoint]) -> Vec<CurvePoint> {
    let mut next = 1.0;
    let mut keep = |(at, point): &(usize, &CurvePoint)| {
        let is_due = point.size as f64 >= next || at + 1 == curve.len();
        if is_due {
            next = (point.size as f64 * 1.6).max(next);
        }
        is_due || point.agreement.is_some()
    };
    curve.iter().enumerate().filter(|pair| keep(pair)).map(|(_, point)| *point).collect()
}

/// Errors and shares of each size, as lines.
fn lines(report: &CompressionReport) -> [Series; 3] {
    let curve = &report.curve;
    let line = |name: &str, of: &dyn Fn(&CurvePoint) -> Option<f64>| {
        let points = curve.iter().filter_map(|p| Some((p.size as f64, of(p)?)));
        Series::line(name, points.collect())
    };
    [
        line("|W - W~| / |W|", &|p| Some(p.error)),
        line("disagreements", &|p| p.agreement.map(|agreement| agreement.disagreement())),
        line("not certified", &|p| {
            p.agreement.and_then(|agreement| agreement.certified_share()).map(|share| 1.0 - share)
        }),
    ]
}

/// Sizes against errors and shares, on logarithmic axes, as a file of its own.
pub fn figure(report: &CompressionReport) -> String {
    svg::lines(&format!("{}: size and error", report.method), "vectors", &lines(report))
}

/// The report as an HTML page.
pub fn page(report: &CompressionReport, seconds: f64) -> String {
    let CompressionReport { method, before, after, error, agreement, tube, curve } = report;
    let mut page = Page::new(&format!("{before} support vectors compressed to {after}"));
    page.text(&format!(
        "Method {method}, {seconds:.2} s. |W - W~| = {:.4e}, relative {:.4e}; |b - b~| = {:.2e}.",
        error.absolute, error.relative, error.offset
    ));
    if let Some(tube) = tube {
        page.text(&format!("{}.", tube_sentence(tube)));
    }
    if let Some(agreement) = agreement {
        page.text(&format!("{}.", sentence(agreement)));
    }
    // What has no points is no line: nothing was compared without a sample.
    let lines: Vec<Series> =
        lines(report).into_iter().filter(|line| !line.points.is_empty()).collect();
    let title = format!("{method}: size and error");
    page.drawings(&[Drawing::scatter(&title, "vectors", "error or share", &lines)]);
    let percent =
        |share: Option<f64>| share.map_or(String::new(), |x| format!("{:.3} %", 100.0 * x));
    let row = |point: &CurvePoint| {
        vec![
            point.size.to_string(),
            format!("{:.4e}", point.error),
            percent(point.agreement.map(|agreement| agreement.disagreement())),
            percent(point.agreement.and_then(|agreement| agreement.certified_share())),
        ]
    };
    let heads = ["vectors#", "|W - W~| / |W|#", "disagreements#", "certified#"];
    page.table(&heads, &shown(curve).iter().map(row).collect::<Vec<_>>());
    page.finish()
}
