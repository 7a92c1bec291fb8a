//! Small SVG pictures, light and dark, without a library.

use std::fmt::Write as _;

/// A range above one place of the axis.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Band {
    pub(crate) x: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
const MARGIN: f64 = 56.0;

/// Colours of the bands, by turns.
const COLOURS: [&str; 4] = ["#2a78d6", "#c2571a", "#3b8a3e", "#8a4fb0"];

/// Ranges as bands along the axis, one for each list of points, with a line at zero.
pub(crate) fn bands(title: &str, x_name: &str, y_name: &str, lists: &[Vec<Band>]) -> String {
    let is_finite = |p: &&Band| p.low.is_finite() && p.high.is_finite();
    let all = || lists.iter().flatten().filter(is_finite);
    let most = all().map(|p| p.x).fold(1.0, f64::max);
    let low = all().map(|p| p.low).fold(0.0, f64::min);
    let high = all().map(|p| p.high).fold(0.0, f64::max);
    let tall = (high - low).max(f64::MIN_POSITIVE);
    let x = |value: f64| MARGIN + (WIDTH - 2.0 * MARGIN) * value / most;
    let y = |value: f64| HEIGHT - MARGIN - (HEIGHT - 2.0 * MARGIN) * (value - low) / tall;
    let draw = |(points, colour): (&Vec<Band>, &&str)| {
        let finite: Vec<&Band> = points.iter().filter(is_finite).collect();
        let upper = finite.iter().map(|p| format!("{:.2},{:.2} ", x(p.x), y(p.high)));
        let lower = finite.iter().rev().map(|p| format!("{:.2},{:.2} ", x(p.x), y(p.low)));
        let outline: String = upper.chain(lower).collect();
        let dot = |(at, value): (f64, f64)| {
            format!("<circle cx=\"{:.2}\" cy=\"{:.2}\" r=\"2.5\"/>", x(at), y(value))
        };
        let ends = finite.iter().flat_map(|p| [(p.x, p.low), (p.x, p.high)]);
        let dots: String = ends.map(dot).collect();
        format!(
            "<g fill=\"{colour}\" stroke=\"{colour}\"><polygon class=\"band\" points=\"{outline}\"/>{dots}</g>"
        )
    };
    let drawn: String = lists.iter().zip(COLOURS.iter().cycle()).map(draw).collect();
    let (left, right, bottom) = (MARGIN, WIDTH - MARGIN, HEIGHT - MARGIN);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\
         <style>svg{{background:#fff;color:#222;font:13px sans-serif}}text{{fill:currentColor}}\
         .band{{fill-opacity:.25}}circle{{stroke:none}}\
         line{{stroke:currentColor;stroke-opacity:.6}}\
         @media(prefers-color-scheme:dark){{svg{{background:#181818;color:#ddd}}}}</style>\
         <title>{title}</title><text x=\"{left}\" y=\"24\" font-weight=\"bold\">{title}</text>\
         <line x1=\"{left}\" y1=\"{zero:.2}\" x2=\"{right}\" y2=\"{zero:.2}\"/>\
         <line x1=\"{left}\" y1=\"{left}\" x2=\"{left}\" y2=\"{bottom}\"/>\
         {drawn}\
         <text x=\"{left}\" y=\"{name_y}\">{x_name}: 0 to {most:.0}</text>\
         <text x=\"{left}\" y=\"44\">{y_name}: {low:.4} to {high:.4}</text></svg>\n",
        title = escape(title),
        x_name = escape(x_name),
        y_name = escape(y_name),
        zero = y(0.0),
        name_y = HEIGHT - 20.0,
    )
}

/// A line of a picture, with a name.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Lines on logarithmic axes; what is not positive is left out.
pub(crate) fn lines(title: &str, x_name: &str, lines: &[Line]) -> String {
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
    let (mut marks, mut names) = (String::new(), String::new());
    let named = lines.iter().zip(COLOURS.iter().cycle());
    for (number, (line, colour)) in
        named.filter(|(line, _)| line.points.iter().any(|p| is_seen(&p))).enumerate()
    {
        let seen: Vec<&(f64, f64)> = line.points.iter().filter(is_seen).collect();
        let path: String =
            seen.iter().map(|(a, b)| format!("{:.2},{:.2} ", x(*a), y(*b))).collect();
        let _ = write!(
            marks,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{path}\"/>",
        );
        // Above all curves, on a ground of its own.
        let _ = write!(
            names,
            "<text class=\"name\" x=\"{:.0}\" y=\"{:.0}\" style=\"fill:{colour}\">{}</text>",
            WIDTH - 200.0,
            MARGIN + 4.0 + 17.0 * number as f64,
            escape(&line.name),
        );
        if seen.len() < 16 {
            for (a, b) in seen {
                let (a, b) = (x(*a), y(*b));
                let dot =
                    format!("<circle cx=\"{a:.2}\" cy=\"{b:.2}\" r=\"3\" fill=\"{colour}\"/>");
                marks.push_str(&dot);
            }
        }
    }
    let range = |low: f64, high: f64| {
        let is_known = low.is_finite() && high.is_finite();
        if is_known {
            format!("{:.3e} to {:.3e}", 10f64.powf(low), 10f64.powf(high))
        } else {
            "nothing".into()
        }
    };
    let (side, end, bottom) = (MARGIN, WIDTH - MARGIN, HEIGHT - MARGIN);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\
         <style>svg{{background:#fff;color:#222;font:13px sans-serif}}text{{fill:currentColor}}\
         line{{stroke:currentColor;stroke-opacity:.6}}\
         .name{{paint-order:stroke;stroke:#fff;stroke-width:5px}}\
         @media(prefers-color-scheme:dark){{svg{{background:#181818;color:#ddd}}\
         .name{{stroke:#181818}}}}</style>\
         <title>{title}</title><text x=\"{side}\" y=\"24\" font-weight=\"bold\">{title}</text>\
         <line x1=\"{side}\" y1=\"{bottom}\" x2=\"{end}\" y2=\"{bottom}\"/>\
         <line x1=\"{side}\" y1=\"{side}\" x2=\"{side}\" y2=\"{bottom}\"/>{marks}{names}\
         <text x=\"{side}\" y=\"{name_y}\">{x_name}: {xs}, logarithmic</text>\
         <text x=\"{side}\" y=\"44\">{ys}, logarithmic</text></svg>\n",
        title = escape(title),
        x_name = escape(x_name),
        xs = range(left, right),
        ys = range(low, high),
        name_y = HEIGHT - 20.0,
    )
}

/// Pictures of the usual size, one below the other.
pub(crate) fn stacked(pictures: &[String]) -> String {
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {}\" role=\"img\">\n",
        HEIGHT * pictures.len() as f64
    );
    for (number, picture) in pictures.iter().enumerate() {
        let top = HEIGHT * number as f64;
        let place = format!("<svg y=\"{top}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" ");
        text.push_str(&picture.replacen("<svg ", &place, 1));
    }
    text.push_str("</svg>\n");
    text
}

/// Points, with a line where the first number is zero.
pub(crate) fn points(title: &str, x_name: &str, y_name: &str, points: &[(f64, f64)]) -> String {
    let finite = || points.iter().filter(|(x, y)| x.is_finite() && y.is_finite());
    let (low, high) =
        finite().fold((0.0f64, 0.0f64), |(low, high), (x, _)| (low.min(*x), high.max(*x)));
    let most = finite().map(|(_, y)| *y).fold(1.0, f64::max);
    let wide = (high - low).max(f64::MIN_POSITIVE);
    let x = |value: f64| MARGIN + (WIDTH - 2.0 * MARGIN) * (value - low) / wide;
    let y = |value: f64| HEIGHT - MARGIN - (HEIGHT - 2.0 * MARGIN) * value / most;
    let mut marks = String::new();
    for (at, value) in finite() {
        let _ = write!(marks, "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"1.5\"/>", x(*at), y(*value));
    }
    let (left, right, bottom, zero) = (MARGIN, WIDTH - MARGIN, HEIGHT - MARGIN, x(0.0));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\
         <style>svg{{background:#fff;color:#222;font:13px sans-serif}}text{{fill:currentColor}}\
         circle{{fill:#2a78d6;fill-opacity:.5}}line{{stroke:currentColor;stroke-opacity:.6}}\
         @media(prefers-color-scheme:dark){{svg{{background:#181818;color:#ddd}}}}</style>\
         <title>{title}</title><text x=\"{left}\" y=\"24\" font-weight=\"bold\">{title}</text>\
         <line x1=\"{zero:.1}\" y1=\"{left}\" x2=\"{zero:.1}\" y2=\"{bottom}\"/>\
         <line x1=\"{left}\" y1=\"{bottom}\" x2=\"{right}\" y2=\"{bottom}\"/>\
         {marks}\
         <text x=\"{left}\" y=\"{name_y}\">{x_name}: {low:.3} to {high:.3}</text>\
         <text x=\"{left}\" y=\"44\">{y_name}: 0 to {most:.0}</text></svg>\n",
        title = escape(title),
        x_name = escape(x_name),
        y_name = escape(y_name),
        name_y = HEIGHT - 20.0,
    )
}

/// Values of a table as shades, each with its number: the best is darkest.
pub(crate) fn heat_map(
    title: &str,
    rows: &[&str],
    columns: &[&str],
    cells: &[Vec<Option<f64>>],
    more_is_better: bool,
) -> String {
    let (cell, tall, margin, head) = (84.0, 30.0, 230.0, 60.0);
    let known = || cells.iter().flatten().flatten().copied();
    let (low, high) = known().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    let share = |value: f64| {
        let share = if high > low { (value - low) / (high - low) } else { 1.0 };
        if more_is_better { share } else { 1.0 - share }
    };
    let (width, height) =
        (margin + cell * columns.len() as f64 + 16.0, head + tall * rows.len() as f64 + 96.0);
    let mut marks = String::new();
    for (y, (name, values)) in rows.iter().zip(cells).enumerate() {
        let top = head + tall * y as f64;
        let _ = write!(
            marks,
            "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{}</text>",
            margin - 8.0,
            top + 20.0,
            escape(name)
        );
        for (x, value) in values.iter().enumerate() {
            let left = margin + cell * x as f64;
            let Some(value) = value else { continue };
            let opacity = 0.08 + 0.72 * share(*value);
            let _ = write!(
                marks,
                "<rect x=\"{left:.0}\" y=\"{top:.0}\" width=\"{cell}\" height=\"{tall}\" \
                 fill-opacity=\"{opacity:.2}\"/><text x=\"{:.0}\" y=\"{:.0}\" \
                 text-anchor=\"middle\">{value:.4}</text>",
                left + cell / 2.0,
                top + 20.0,
            );
        }
    }
    for (x, name) in columns.iter().enumerate() {
        let (left, top) =
            (margin + cell * (x as f64 + 0.5), head + tall * rows.len() as f64 + 14.0);
        let _ = write!(
            marks,
            "<text transform=\"translate({left:.0} {top:.0}) rotate(30)\">{}</text>",
            escape(name)
        );
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\">\
         <style>svg{{background:#fff;color:#222;font:13px sans-serif}}text{{fill:currentColor}}\
         rect{{fill:#2a78d6}}\
         @media(prefers-color-scheme:dark){{svg{{background:#181818;color:#ddd}}}}</style>\
         <title>{title}</title><text x=\"16\" y=\"28\" font-weight=\"bold\">{title}</text>{marks}</svg>\n",
        title = escape(title),
    )
}

/// Text that cannot become markup.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
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
    fn lines_leave_out_what_has_no_logarithm() {
        let points = vec![(1.0, 0.5), (2.0, 0.0), (10.0, 1e-3)];
        let list = [Line { name: "<b>".into(), points }];
        let svg = lines("curve", "size", &list);
        assert!(svg.contains("584.00") && !svg.contains("NaN") && !svg.contains("<b>"));
        assert!(!lines("empty", "size", &[]).contains("NaN"));
    }
}
