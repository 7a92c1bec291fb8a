# `accelerate`: a model of another package becomes a model of libmercer, with a plan for queries like `x`.

accelerate <- function(model, x = NULL, ...) UseMethod("accelerate")

accelerate.default <- function(model, x = NULL, ...) {
  stop("accelerate() takes models of e1071::svm(), kernlab::ksvm() and mercer::svm(), not of class '",
       class(model)[1], "'", call. = FALSE)
}

accelerate.mercer <- function(model, x = NULL, contract = "certified", seconds = 5, plan = NULL, ...) {
  no_more(...)
  rows <- if (!is.null(x)) query_rows(model, x, na.omit)
  scaling <- if (!is.null(x)) rows[c("center", "scale")]
  if (!is.null(plan)) {
    pointer <- .Call(C_compile, model$pointer, one_text(plan), rows$rows, scaling$center, scaling$scale)
  } else if (!is.null(x)) {
    pointer <- .Call(C_tune, model$pointer, rows$rows, scaling$center, scaling$scale, one_text(contract),
                     as.double(seconds))
  } else {
    return(model)
  }
  with_pointer(model, pointer)
}

accelerate.svm <- function(model, x = NULL, ...) accelerate(from_e1071(model), x, ...)

accelerate.ksvm <- function(model, x = NULL, ...) accelerate(from_kernlab(model), x, ...)

no_more <- function(...) {
  if (...length() > 0) {
    named <- ...names()
    stop("no argument '", if (is.null(named)) "" else named[1], "'", call. = FALSE)
  }
}

one_text <- function(value) {
  if (!is.character(value) || length(value) != 1 || is.na(value)) {
    stop("'", deparse(substitute(value)), "' is one text", call. = FALSE)
  }
  enc2utf8(value)
}

# Centre and scale of every column, from those of the scaled ones.
full_scaling <- function(scaled, x_scale, columns) {
  if (!any(scaled)) {
    return(list(center = NULL, scale = NULL))
  }
  center <- rep(0, columns)
  scale <- rep(1, columns)
  center[scaled] <- x_scale$"scaled:center"
  scale[scaled] <- x_scale$"scaled:scale"
  list(center = center, scale = scale)
}

value_scaling <- function(y_scale) {
  list(y_center = y_scale$"scaled:center", y_scale = y_scale$"scaled:scale")
}

# The matrix of supports of e1071, dense: a model that was trained with sparse rows keeps them as SparseM's matrix.csr.
dense_supports <- function(model) {
  if (!isTRUE(model$sparse)) {
    return(model$SV)
  }
  csr <- model$SV
  dense <- matrix(0, slot(csr, "dimension")[1], slot(csr, "dimension")[2])
  row <- rep(seq_len(nrow(dense)), diff(slot(csr, "ia")))
  dense[cbind(row, slot(csr, "ja"))] <- slot(csr, "ra")
  dense
}

from_e1071 <- function(model) {
  if (model$tot.nSV < 1) {
    stop("the model has no support vectors", call. = FALSE)
  }
  type <- c("c_svc", "nu_svc", "one_class", "epsilon_svr", "nu_svr")[model$type + 1]
  kernel <- switch(model$kernel + 1, kernel_lines("linear"),
                   kernel_lines("polynomial", model$gamma, model$coef0, model$degree),
                   kernel_lines("rbf", model$gamma),
                   kernel_lines("sigmoid", model$gamma, model$coef0))
  if (is.null(kernel)) {
    stop("kernel ", model$kernel, " of e1071 is not known", call. = FALSE)
  }
  is_classes <- model$type < 2
  if (is_classes && model$nclasses < 2) {
    stop("the model was trained on a single class", call. = FALSE)
  }
  supports <- dense_supports(model)
  classes <- if (is_classes) list(label = model$labels, count = model$nSV)
  sigmoids <- if (is_classes && isTRUE(model$compprob)) list(a = model$probA, b = model$probB)
  rho <- if (is_classes) model$rho else model$rho[1]
  text <- libsvm_text(type, kernel, rho, as.matrix(model$coefs), supports, classes, sigmoids)
  columns <- ncol(supports)
  value <- if (model$type > 2 && any(model$scaled)) value_scaling(model$y.scale)
  fields <- c(list(levels = if (is_classes) model$levels, codes = if (is_classes) model$labels, columns = columns,
                   names = colnames(supports), terms = model$terms, rule = "e1071"),
              full_scaling(model$scaled, model$x.scale, columns), value)
  model_of_text(text, "e1071::svm", fields)
}
