//! Figures that are SVG files of their own, light and dark.
//!
//! Drawings of a page are in `drawing.rs`.

use std::fmt::Write as _;

use super::{Series, escape, shortened};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
const MARGIN: f64 = 56.0;

/// Colours of bands and lines, in turn.
const COLOURS: [&str; 4] = ["#2a78d6", "#c2571a", "#3b8a3e", "#8a4fb0"];

/// What every figure has: its size, its title and where that is, and its style rules.
struct Frame<'f> {
    width: f64,
    height: f64,
    title: &'f str,
    title_at: [f64; 2],
    /// Rules for light and dark.
    style: &'f str,
    /// Rules for dark only.
    dark: &'f str,
}

impl<'f> Frame<'f> {
    /// A figure of the usual size.
    fn usual(title: &'f str, style: &'f str) -> Self {
        let (width, height) = (WIDTH, HEIGHT);
        Self { width, height, title, title_at: [MARGIN, 24.0], style, dark: "" }
    }

    /// The file, with these marks drawn in it.
    fn draw(&self, marks: &str) -> String {
        let Self { width, height, title_at: [x, y], style, dark, .. } = self;
        let title = escape(self.title);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\">\
             <style>svg{{background:#fff;color:#222;font:13px sans-serif}}text{{fill:currentColor}}\
             {style}\
             @media(prefers-color-scheme:dark){{svg{{background:#181818;color:#ddd}}{dark}}}</style>\
             <title>{title}</title><text x=\"{x}\" y=\"{y}\" font-weight=\"bold\">{title}</text>\
             {marks}</svg>\n"
        )
    }
}

/// A text below the horizontal axis, and one above the vertical axis.
fn axis_names(x_name: &str, y_name: &str) -> String {
    format!(
        "<text x=\"{MARGIN}\" y=\"{}\">{}</text><text x=\"{MARGIN}\" y=\"44\">{}</text>",
        HEIGHT - 20.0,
        escape(x_name),
        escape(y_name),
    )
}

/// A line from one point to another.
fn stroke(from: [f64; 2], to: [f64; 2]) -> String {
    let ([x1, y1], [x2, y2]) = (from, to);
    format!("<line x1=\"{x1:.2}\" y1=\"{y1:.2}\" x2=\"{x2:.2}\" y2=\"{y2:.2}\"/>")
}

/// A range of values at one place of the horizontal axis.
#[derive(Debug, Clone, Copy)]
pub struct Band {
    /// The place.
    pub x: f64,
    /// The lower end of the range.
    pub low: f64,
    /// The upper end of the range.
    pub high: f64,
}

/// One signed bar of a figure.
#[derive(Debug, Clone)]
pub struct SignedBar {
    /// What stands left of it.
    pub name: String,
    /// Its length, to the right if positive.
    pub value: f64,
    /// What stands at its end.
    pub text: String,
}

/// Signed bars from a common line at zero, one below the other.
pub fn signed_bars(title: &str, x_name: &str, bars: &[SignedBar]) -> String {
    let finite = || bars.iter().filter(|bar| bar.value.is_finite());
    let most = finite().map(|bar| bar.value.abs()).fold(f64::MIN_POSITIVE, f64::max);
    let (height, zero) = (76.0 + 22.0 * finite().count() as f64, 400.0);
    let mut marks = stroke([zero, 36.0], [zero, height - 34.0]);
    for (number, bar) in finite().enumerate() {
        let (top, long) = (40.0 + 22.0 * number as f64, 150.0 * (bar.value / most).abs());
        let is_positive = bar.value >= 0.0;
        let (left, colour) =
            if is_positive { (zero, COLOURS[0]) } else { (zero - long, COLOURS[1]) };
        let (end, anchor) =
            if is_positive { (zero + long + 6.0, "start") } else { (zero - long - 6.0, "end") };
        let _ = write!(
            marks,
            "<text x=\"12\" y=\"{y:.0}\">{}</text><rect x=\"{left:.2}\" y=\"{top:.0}\" width=\"{long:.2}\" height=\"16\" \
             fill=\"{colour}\"/><text x=\"{end:.2}\" y=\"{y:.0}\" text-anchor=\"{anchor}\">{}</text>",
            escape(&shortened(&bar.name, 26)),
            escape(&bar.text),
            y = top + 13.0,
        );
    }
    let _ = write!(marks, "<text x=\"12\" y=\"{:.0}\">{}</text>", height - 14.0, escape(x_name));
    let style = "line{stroke:currentColor;stroke-opacity:.6}";
    Frame { width: WIDTH, height, title, title_at: [12.0, 24.0], style, dark: "" }.draw(&marks)
}

/// Ranges as bands along the horizontal axis, one band for each list, with a line at zero.
pub fn bands(title: &str, x_name: &str, y_name: &str, lists: &[Vec<Band>]) -> String {
    let is_finite = |p: &&Band| p.low.is_finite() && p.high.is_finite();
    let all = || lists.iter().flatten().filter(is_finite);
    let most = all().map(|p| p.x).fold(1.0, f64::max);
    let low = all().map(|p| p.low).fold(0.0, f64::min);
    let high = all().map(|p| p.high).fold(0.0, f64::max);
    let tall = (high - low).max(f64::MIN_POSITIVE);
    let x = |value: f64| MARGIN + (WIDTH - 2.0 * MARGIN) * value / most;
    let y = |value: f64| HEIGHT - MARGIN - (HEIGHT - 2.0 * MARGIN) * (value - low) / tall;
    let mut marks = stroke([MARGIN, y(0.0)], [WIDTH - MARGIN, y(0.0)]);
    marks += &stroke([MARGIN, MARGIN], [MARGIN, HEIGHT - MARGIN]);
    for (points, colour) in lists.iter().zip(COLOURS.iter().cycle()) {
        let finite: Vec<&Band> = points.iter().filter(is_finite).collect();
        let upper = finite.iter().map(|p| format!("{:.2},{:.2} ", x(p.x), y(p.high)));
        let lower = finite.iter().rev().map(|p| format!("{:.2},{:.2} ", x(p.x), y(p.low)));
        let outline: String = upper.chain(lower).collect();
        let dot = |(at, value): (f64, f64)| {
            format!("<circle cx=\"{:.2}\" cy=\"{:.2}\" r=\"2.5\"/>", x(at), y(value))
        };
        let ends = finite.iter().flat_map(|p| [(p.x, p.low), (p.x, p.high)]);
        let dots: String = ends.map(dot).collect();
        let _ = write!(
            marks,
            "<g fill=\"{colour}\" stroke=\"{colour}\"><polygon class=\"band\" points=\"{outline}\"/>{dots}</g>"
        );
    }
    marks += &axis_names(
        &format!("{x_name}: 0 to {most:.0}"),
        &format!("{y_name}: {low:.4} to {high:.4}"),
    );
    let style =
        ".band{fill-opacity:.25}circle{stroke:none}line{stroke:currentColor;stroke-opacity:.6}";
    Frame::usual(title, style).draw(&marks)
}

/// Lines on logarithmic axes; points that are not positive are left out.
pub fn lines(title: &str, x_name: &str, lines: &[Series]) -> String {
    let is_seen = |(x, y): &&(f64, f64)| *x > 0.0 && *y > 0.0 && x.is_finite() && y.is_finite();
    let all = || lines.iter().flat_map(|line| &line.points).filter(is_seen);
    let fold = |of: &dyn Fn(&(f64, f64)) -> f64| {
        let range = all().map(|p| of(p).log10());
        range.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)))
    };
    let ((left, right), (low, high)) = (fold(&|p| p.0), fold(&|p| p.1));
    let (wide, tall) = ((right - left).max(1e-9), (high - low).max(1e-9));
    let x = |value: f64| MARGIN + (WIDTH - 2.0 * MARGIN) * (value.log10() - left) / wide;
    let y = |value: f64| HEIGHT - MARGIN - (HEIGHT - 2.0 * MARGIN) * (value.log10() - low) / tall;
    let corner = [MARGIN, HEIGHT - MARGIN];
    let mut marks = stroke(corner, [WIDTH - MARGIN, HEIGHT - MARGIN]);
    marks += &stroke([MARGIN, MARGIN], corner);
    let mut names = String::new();
    let coloured = lines.iter().zip(COLOURS.iter().cycle());
    let drawn = coloured.filter(|(line, _)| line.points.iter().any(|p| is_seen(&p)));
    for (number, (line, colour)) in drawn.enumerate() {
        let seen: Vec<[f64; 2]> =
            line.points.iter().filter(is_seen).map(|(a, b)| [x(*a), y(*b)]).collect();
        let path: String = seen.iter().map(|[a, b]| format!("{a:.2},{b:.2} ")).collect();
        let _ = write!(
            marks,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{path}\"/>",
        );
        if seen.len() < 16 {
            for [a, b] in seen {
                let _ = write!(
                    marks,
                    "<circle cx=\"{a:.2}\" cy=\"{b:.2}\" r=\"3\" fill=\"{colour}\"/>"
                );
            }
        }
        // Drawn after all lines, with an outline in the colour of the background.
        let _ = write!(
            names,
            "<text class=\"name\" x=\"{:.0}\" y=\"{:.0}\" style=\"fill:{colour}\">{}</text>",
            WIDTH - 200.0,
            MARGIN + 4.0 + 17.0 * number as f64,
            escape(&line.name),
        );
    }
    let range = |low: f64, high: f64| {
        if low.is_finite() && high.is_finite() {
            format!("{:.3e} to {:.3e}, logarithmic", 10f64.powf(low), 10f64.powf(high))
        } else {
            "nothing to show".into()
        }
    };
    marks += &names;
    marks += &axis_names(&format!("{x_name}: {}", range(left, right)), &range(low, high));
    let style = "line{stroke:currentColor;stroke-opacity:.6}\
                 .name{paint-order:stroke;stroke:#fff;stroke-width:5px}";
    Frame { dark: ".name{stroke:#181818}", ..Frame::usual(title, style) }.draw(&marks)
}

/// Lines and dots on even axes; points that are not finite are left out.
pub fn plot(title: &str, x_name: &str, y_name: &str, lines: &[Series]) -> String {
    let is_seen = |(x, y): &&(f64, f64)| x.is_finite() && y.is_finite();
    let all = || lines.iter().flat_map(|line| &line.points).filter(is_seen);
    let fold = |of: &dyn Fn(&(f64, f64)) -> f64| {
        let values = all().map(of);
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)))
    };
    let ((left, right), (low, high)) = (fold(&|p| p.0), fold(&|p| p.1));
    let (wide, tall) = ((right - left).max(1e-300), (high - low).max(1e-300));
    let x = |value: f64| MARGIN + (WIDTH - 2.0 * MARGIN) * (value - left) / wide;
    let y = |value: f64| HEIGHT - MARGIN - (HEIGHT - 2.0 * MARGIN) * (value - low) / tall;
    let corner = [MARGIN, HEIGHT - MARGIN];
    let mut marks = stroke(corner, [WIDTH - MARGIN, HEIGHT - MARGIN]);
    marks += &stroke([MARGIN, MARGIN], corner);
    for (number, (line, colour)) in lines.iter().zip(COLOURS.iter().cycle()).enumerate() {
        let seen = line.points.iter().filter(is_seen);
        if line.is_line {
            let path: String = seen.map(|(a, b)| format!("{:.2},{:.2} ", x(*a), y(*b))).collect();
            let _ = write!(
                marks,
                "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{path}\"/>",
            );
        } else {
            for (a, b) in seen {
                let (a, b) = (x(*a), y(*b));
                let _ = write!(
                    marks,
                    "<circle cx=\"{a:.1}\" cy=\"{b:.1}\" r=\"1.5\" fill=\"{colour}\" fill-opacity=\".5\"/>"
                );
            }
        }
        let _ = write!(
            marks,
            "<text x=\"{:.0}\" y=\"{:.0}\" style=\"fill:{colour}\">{}</text>",
            WIDTH - 260.0,
            HEIGHT - MARGIN - 12.0 - 17.0 * number as f64,
            escape(&line.name),
        );
    }
    let range = |low: f64, high: f64| {
        if low.is_finite() { format!("{low:.3e} to {high:.3e}") } else { "nothing to show".into() }
    };
    marks += &axis_names(
        &format!("{x_name}: {}", range(left, right)),
        &format!("{y_name}: {}", range(low, high)),
    );
    Frame::usual(title, "line{stroke:currentColor;stroke-opacity:.6}").draw(&marks)
}

/// Points, with a vertical line where the first number is zero.
pub fn points(title: &str, x_name: &str, y_name: &str, points: &[(f64, f64)]) -> String {
    let finite = || points.iter().filter(|(x, y)| x.is_finite() && y.is_finite());
    let (low, high) =
        finite().fold((0.0f64, 0.0f64), |(low, high), (x, _)| (low.min(*x), high.max(*x)));
    let most = finite().map(|(_, y)| *y).fold(1.0, f64::max);
    let wide = (high - low).max(f64::MIN_POSITIVE);
    let x = |value: f64| MARGIN + (WIDTH - 2.0 * MARGIN) * (value - low) / wide;
    let y = |value: f64| HEIGHT - MARGIN - (HEIGHT - 2.0 * MARGIN) * value / most;
    let mut marks = stroke([x(0.0), MARGIN], [x(0.0), HEIGHT - MARGIN]);
    marks += &stroke([MARGIN, HEIGHT - MARGIN], [WIDTH - MARGIN, HEIGHT - MARGIN]);
    for (at, value) in finite() {
        let _ = write!(marks, "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"1.5\"/>", x(*at), y(*value));
    }
    marks += &axis_names(
        &format!("{x_name}: {low:.3} to {high:.3}"),
        &format!("{y_name}: 0 to {most:.0}"),
    );
    let style = "circle{fill:#2a78d6;fill-opacity:.5}line{stroke:currentColor;stroke-opacity:.6}";
    Frame::usual(title, style).draw(&marks)
}

/// Figures of the usual size, one below the other in one file.
pub fn stacked(figures: &[String]) -> String {
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {}\" role=\"img\">\n",
        HEIGHT * figures.len() as f64
    );
    for (number, figure) in figures.iter().enumerate() {
        let top = HEIGHT * number as f64;
        let place = format!("<svg y=\"{top}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" ");
        text.push_str(&figure.replacen("<svg ", &place, 1));
    }
    text.push_str("</svg>\n");
    text
}

/// The values of a table as shades, each with its number; the best value is darkest.
#[derive(Debug, Clone, Copy)]
pub struct HeatMap<'h> {
    /// What the values are.
    pub title: &'h str,
    /// Names of the rows.
    pub rows: &'h [&'h str],
    /// Names of the columns.
    pub columns: &'h [&'h str],
    /// Values, row by row; an absent value leaves its cell empty.
    pub cells: &'h [Vec<Option<f64>>],
    /// Whether the largest value is the best.
    pub more_is_better: bool,
}

/// Sizes of a cell, of the names at the left and of the title, in pixels.
const CELL: [f64; 2] = [84.0, 30.0];
const ROW_NAMES: f64 = 230.0;
const TITLE: f64 = 60.0;

impl HeatMap<'_> {
    /// The figure.
    pub fn draw(&self) -> String {
        let Self { title, rows, columns, .. } = self;
        let bottom = TITLE + CELL[1] * rows.len() as f64;
        let mut marks = self.cells();
        for (x, name) in columns.iter().enumerate() {
            let _ = write!(
                marks,
                "<text transform=\"translate({:.0} {:.0}) rotate(30)\">{}</text>",
                ROW_NAMES + CELL[0] * (x as f64 + 0.5),
                bottom + 14.0,
                escape(name)
            );
        }
        Frame {
            width: ROW_NAMES + CELL[0] * columns.len() as f64 + 16.0,
            height: bottom + 96.0,
            title,
            title_at: [16.0, 28.0],
            style: "rect{fill:#2a78d6}",
            dark: "",
        }
        .draw(&marks)
    }

    /// The names of the rows and the cells.
    fn cells(&self) -> String {
        let known = || self.cells.iter().flatten().flatten().copied();
        let (low, high) = known().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        let share = |value: f64| {
            let share = if high > low { (value - low) / (high - low) } else { 1.0 };
            if self.more_is_better { share } else { 1.0 - share }
        };
        let [width, height] = CELL;
        let mut marks = String::new();
        for (y, (name, values)) in self.rows.iter().zip(self.cells).enumerate() {
            let top = TITLE + height * y as f64;
            let _ = write!(
                marks,
                "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{}</text>",
                ROW_NAMES - 8.0,
                top + 20.0,
                escape(name)
            );
            for (x, value) in values.iter().enumerate() {
                let left = ROW_NAMES + width * x as f64;
                let Some(value) = value else { continue };
                let opacity = 0.08 + 0.72 * share(*value);
                let _ = write!(
                    marks,
                    "<rect x=\"{left:.0}\" y=\"{top:.0}\" width=\"{width}\" height=\"{height}\" \
                     fill-opacity=\"{opacity:.2}\"/><text x=\"{:.0}\" y=\"{:.0}\" \
                     text-anchor=\"middle\">{value:.4}</text>",
                    left + width / 2.0,
                    top + 20.0,
                );
            }
        }
        marks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_and_points_lie_inside() {
        let points = [Band { x: 0.0, low: -1.0, high: 2.0 }, Band { x: 9.0, low: 0.5, high: 0.6 }];
        let svg = bands("<script>", "cost", "score", &[points.to_vec()]);
        assert!(svg.contains("&lt;script&gt;") && !svg.contains("<script>"));
        assert!(svg.contains("584.00") && !svg.contains("NaN"));
    }

    #[test]
    fn signed_bars_point_both_ways_from_zero() {
        let bar =
            |value: f64| SignedBar { name: "<i>".to_owned(), value, text: format!("{value}") };
        let svg = signed_bars("t", "score", &[bar(2.0), bar(-1.0), bar(f64::NAN)]);
        assert!(svg.contains("x=\"400.00\" y=\"40\" width=\"150.00\""), "{svg}");
        assert!(svg.contains("x=\"325.00\" y=\"62\" width=\"75.00\""), "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("<i>"));
    }

    #[test]
    fn lines_leave_out_what_has_no_logarithm() {
        let points = vec![(1.0, 0.5), (2.0, 0.0), (10.0, 1e-3)];
        let svg = lines("curve", "size", &[Series::line("<b>", points)]);
        assert!(svg.contains("584.00") && !svg.contains("NaN") && !svg.contains("<b>"));
        assert!(!lines("empty", "size", &[]).contains("NaN"));
    }

    #[test]
    fn plots_show_values_below_zero_and_leave_out_what_is_not_finite() {
        let points = vec![(0.0, -1.0), (0.5, f64::NAN), (1.0, 3.0)];
        let svg = plot("curve", "x", "g", &[Series::line("<b>", points)]);
        assert!(svg.contains("56.00,304.00 584.00,56.00") && svg.contains("-1.000e0 to 3.000e0"));
        assert!(!svg.contains("NaN") && !svg.contains("<b>"));
        assert!(!plot("empty", "x", "g", &[]).contains("NaN"));
    }
}
