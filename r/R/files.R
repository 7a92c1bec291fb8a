# Models in files. R's own file keeps the library's bytes beside what R has to know; other formats keep the machine alone.

r_format <- "mercer model of R, version 1"

save_model <- function(model, path, format = "r") {
  if (!inherits(model, "mercer")) {
    stop("save_model() takes a model of mercer", call. = FALSE)
  }
  path <- path.expand(one_text(path))
  if (one_text(format) != "r") {
    .Call(C_save, model$pointer, path, format)
    return(invisible(path))
  }
  bytes <- .Call(C_write, model$pointer, "mercer")
  if (!dir.exists(dirname(path))) {
    stop("there is no folder ", dirname(path), call. = FALSE)
  }
  # The file appears whole or not at all.
  part <- tempfile(paste0(".", basename(path), "."), dirname(path))
  on.exit(unlink(part))
  saveRDS(list(format = r_format, bytes = bytes, model = with_pointer(model, NULL)), part)
  if (!file.rename(part, path)) {
    stop("cannot write ", path, call. = FALSE)
  }
  invisible(path)
}

load_model <- function(path, trust_plan = FALSE) {
  path <- path.expand(one_text(path))
  if (!is_r_file(path)) {
    pointer <- .Call(C_open, path, isTRUE(trust_plan))
    return(model_of_file(pointer, path))
  }
  kept <- readRDS(path)
  if (!is.list(kept) || !identical(kept$format, r_format) || !is.raw(kept$bytes)) {
    stop(path, " is not a file of save_model()", call. = FALSE)
  }
  with_pointer(kept$model, .Call(C_read, kept$bytes, isTRUE(trust_plan)))
}

# R's serialisation begins with X and a new line; the file is packed by gzip.
is_r_file <- function(path) {
  if (!file.exists(path) || dir.exists(path)) {
    stop("there is no file ", path, call. = FALSE)
  }
  file <- gzfile(path, "rb")
  on.exit(close(file))
  identical(readBin(file, "raw", 2), charToRaw("X\n"))
}

# What R has to know of a model that another program wrote: classes have the names of the file.
model_of_file <- function(pointer, path) {
  found <- .Call(C_info, pointer)
  is_classes <- found$output == "classes"
  new_model(pointer, basename(path), levels = if (is_classes) found$classes,
            codes = if (is_classes) seq_along(found$classes),
            columns = if (found$columns > 0) found$columns else NA)
}

verify_plan <- function(model, x = NULL) {
  if (!inherits(model, "mercer")) {
    stop("verify_plan() takes a model of mercer", call. = FALSE)
  }
  rows <- if (!is.null(x)) query_rows(model, x, na.omit)
  with_pointer(model, .Call(C_verify, model$pointer, rows$rows, rows$center, rows$scale))
}
