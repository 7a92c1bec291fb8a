# LIBSVM model text, written in memory from the fields of other packages' models.

numbers <- function(values) paste(sprintf("%.17g", values), collapse = " ")

# One line for each support: its coefficients, then `column:value` where the value is not 0.
support_lines <- function(coefficients, supports) {
  if (any(!is.finite(coefficients)) || any(!is.finite(supports))) {
    stop("the model holds numbers that are not finite", call. = FALSE)
  }
  supports <- unname(supports)
  vapply(seq_len(nrow(supports)), function(i) {
    row <- supports[i, ]
    columns <- which(row != 0)
    values <- if (length(columns) > 0) paste0(columns, ":", sprintf("%.17g", row[columns]), collapse = " ")
    paste(c(numbers(coefficients[i, ]), values), collapse = " ")
  }, "")
}

# `kernel` is a named vector of texts such as c(kernel_type = "rbf", gamma = "0.5"); `classes` is NULL or a list of label
# and count; `sigmoids` is NULL or a list of a and b.
libsvm_text <- function(type, kernel, rho, coefficients, supports, classes = NULL, sigmoids = NULL) {
  head <- c(paste("svm_type", type),
            paste(names(kernel), kernel),
            paste("nr_class", if (is.null(classes)) 2 else length(classes$label)),
            paste("total_sv", nrow(supports)),
            paste("rho", numbers(rho)))
  if (!is.null(classes)) {
    head <- c(head, paste("label", paste(classes$label, collapse = " ")))
  }
  if (!is.null(sigmoids)) {
    head <- c(head, paste("probA", numbers(sigmoids$a)), paste("probB", numbers(sigmoids$b)))
  }
  if (!is.null(classes)) {
    head <- c(head, paste("nr_sv", paste(classes$count, collapse = " ")))
  }
  paste0(paste(c(head, "SV", support_lines(coefficients, supports)), collapse = "\n"), "\n")
}

kernel_lines <- function(name, gamma = NULL, coef0 = NULL, degree = NULL) {
  lines <- c(kernel_type = name)
  if (!is.null(degree)) lines["degree"] <- sprintf("%.17g", degree)
  if (!is.null(gamma)) lines["gamma"] <- sprintf("%.17g", gamma)
  if (!is.null(coef0)) lines["coef0"] <- sprintf("%.17g", coef0)
  lines
}

# Pairs of places 1..count in the order of LIBSVM's scores: (1, 2), (1, 3), ..., (2, 3), ...
class_pairs <- function(count) {
  first <- rep(seq_len(count - 1), rev(seq_len(count - 1)))
  second <- unlist(lapply(seq_len(count - 1), function(i) seq(i + 1, count)))
  cbind(first, second)
}
