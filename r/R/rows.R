# `newdata` as the library takes it: a matrix of doubles with the scaling of its columns, or compressed rows.

# A list of rows, center, scale, names (of rows) and act (the rows that na.action left out).
query_rows <- function(model, newdata, na_action) {
  if (is_sparse(newdata)) {
    rows <- compressed_rows(newdata)
    check_columns(model, rows$columns)
    if (!is.null(model$center)) {
      stop("the model scales its columns; sparse rows would not stay sparse: use as.matrix()", call. = FALSE)
    }
    return(list(rows = rows, names = rownames(newdata), count = length(rows$starts) - 1))
  }
  if (is.vector(newdata) && is.atomic(newdata)) {
    newdata <- as.matrix(newdata)
  }
  names <- rownames(newdata)
  if (is.null(names)) {
    names <- seq_len(nrow(newdata))
  }
  found <- dense_rows(model, newdata, na_action)
  rows <- found$rows
  check_columns(model, ncol(rows))
  if (!is.numeric(rows) && !is.logical(rows)) {
    stop("newdata has columns that are not numbers", call. = FALSE)
  }
  storage.mode(rows) <- "double"
  if (!is.null(found$act)) {
    names <- names[-found$act]
  }
  list(rows = rows, center = model$center, scale = model$scale, names = names, act = found$act, count = nrow(rows))
}

check_columns <- function(model, found) {
  if (!is.na(model$columns) && found != model$columns) {
    stop("newdata has ", found, " columns, the model has ", model$columns, call. = FALSE)
  }
}

# The matrix, by the rule of the package that the model comes from.
dense_rows <- function(model, newdata, na_action) {
  is_formula <- !is.null(model$terms) && !(model$rule == "kernlab" && is.matrix(newdata))
  if (is_formula) {
    if (is.null(colnames(newdata))) {
      colnames(newdata) <- model$names
    }
    newdata <- na_action(as.data.frame(newdata))
    right <- delete.response(model$terms)
    frame <- model.frame(right, newdata, xlev = model$xlevels, na.action = na_action)
    act <- attr(newdata, "na.action")
    return(list(rows = model.matrix(right, frame), act = act))
  }
  rows <- na_action(as.matrix(newdata))
  list(rows = rows, act = attr(rows, "na.action"))
}

is_sparse <- function(newdata) {
  inherits(newdata, c("matrix.csr", "sparseMatrix"))
}

# Rows of SparseM's matrix.csr or of the package Matrix.
compressed_rows <- function(newdata) {
  if (inherits(newdata, "matrix.csr")) {
    return(list(starts = as.double(slot(newdata, "ia")) - 1, indices = as.integer(slot(newdata, "ja")) - 1L,
                values = as.double(slot(newdata, "ra")), columns = slot(newdata, "dimension")[2]))
  }
  by_row <- as(as(as(newdata, "dMatrix"), "generalMatrix"), "RsparseMatrix")
  list(starts = as.double(slot(by_row, "p")), indices = slot(by_row, "j"), values = slot(by_row, "x"),
       columns = slot(by_row, "Dim")[2])
}
