//! The drawings of the server's page and of reports: one ES module that imports nothing. Reports embed it, the page serves it;
//! figures in files of their own are SVG from `mercer-report`.

/// The module, as text.
pub const MODULE: &str = include_str!("draw.js");

#[cfg(test)]
mod tests {
    use super::MODULE;

    #[test]
    fn the_module_stands_alone_and_can_be_embedded() {
        assert!(!MODULE.contains("import "), "it would need another file");
        assert!(!MODULE.to_lowercase().contains("</script"), "it would end its own element");
    }
}
