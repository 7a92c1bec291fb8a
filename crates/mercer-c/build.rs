//! The name under which programs find the shared library at run time: its number changes with the interface.

fn main() {
    let number = std::env::var("CARGO_PKG_VERSION_MAJOR").unwrap_or_default();
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libmercer.so.{number}");
    }
    println!("cargo:rerun-if-changed=build.rs");
}
