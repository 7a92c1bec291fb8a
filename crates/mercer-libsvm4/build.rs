//! The name under which programs find the shared library at run time.

fn main() {
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libsvm.so.4");
    }
    println!("cargo:rerun-if-changed=build.rs");
}
