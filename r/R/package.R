# What happens when the package is loaded and unloaded.

.onLoad <- function(libname, pkgname) {
  if (!.Call(C_abi)) {
    stop("libmercer has another version than the one this package was built with: install the package again",
         call. = FALSE)
  }
}

.onUnload <- function(libpath) {
  # Finalizers are part of the library that is about to be unloaded.
  gc()
  library.dynam.unload("mercer", libpath)
}
