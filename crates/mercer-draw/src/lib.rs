//! The drawings of the server's page and of reports: one ES module that imports nothing. Reports embed it with some drawings
//! of their own behind it, the page serves it; figures in files of their own are SVG from `mercer-report`.

/// The module, as text.
pub const MODULE: &str = include_str!("draw.js");

/// The module and the drawings that only reports have, as the text of one module.
pub const REPORT_MODULE: &str = concat!(include_str!("draw.js"), "\n", include_str!("report.js"));

#[cfg(test)]
mod tests {
    use super::REPORT_MODULE;

    #[test]
    fn the_module_stands_alone_and_can_be_embedded() {
        assert!(!REPORT_MODULE.contains("import "), "it would need another file");
        assert!(!REPORT_MODULE.to_lowercase().contains("</script"), "it would end its own element");
    }
}
