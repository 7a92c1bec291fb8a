# Models of kernlab::ksvm as LIBSVM model text. kernlab itself is not needed: slots are read by name.

kernlab_kernel <- function(kernel) {
  known <- slot(kernel, "kpar")
  switch(class(kernel)[1],
         rbfkernel = kernel_lines("rbf", known$sigma),
         vanillakernel = kernel_lines("linear"),
         polykernel = kernel_lines("polynomial", known$scale, known$offset, known$degree),
         tanhkernel = kernel_lines("sigmoid", known$scale, known$offset),
         stop("kernel '", class(kernel)[1], "' of kernlab is not supported; rbfdot, vanilladot, polydot and tanhdot are",
              call. = FALSE))
}

# Text for a machine of several classes. kernlab has supports for each pair of classes, and a score of its own sign: f < 0
# is for the first class. Each support is a line for each pair it belongs to; the library unites equal ones.
kernlab_classes <- function(model, kernel, count) {
  pairs <- class_pairs(count)
  per_pair <- lapply(seq_len(nrow(pairs)), function(p) {
    betas <- -slot(model, "coef")[[p]]
    coefficients <- matrix(0, length(betas), count - 1)
    coefficients[, pairs[p, "second"] - 1] <- betas
    list(coefficients = coefficients, supports = slot(model, "xmatrix")[[p]])
  })
  # Lines come class by class, and those of a pair belong to its first class: the order of the pairs.
  supports <- do.call(rbind, lapply(per_pair, `[[`, "supports"))
  coefficients <- do.call(rbind, lapply(per_pair, `[[`, "coefficients"))
  sizes <- vapply(per_pair, function(pair) nrow(pair$supports), 0L)
  owners <- vapply(seq_len(count), function(class) sum(sizes[pairs[, "first"] == class]), 0)
  curves <- slot(model, "prob.model")
  sigmoids <- if (length(curves) == nrow(pairs) && !is.null(curves[[1]])) {
    # 1 - sigmoid(-f) of kernlab, as a sigmoid of f.
    list(a = vapply(curves, `[[`, 0, "A"), b = -vapply(curves, `[[`, 0, "B"))
  }
  libsvm_text("c_svc", kernel, -unlist(slot(model, "b")), coefficients, supports,
              list(label = seq_len(count), count = owners), sigmoids)
}

from_kernlab <- function(model) {
  type <- slot(model, "type")
  if (!type %in% c("C-svc", "nu-svc", "C-bsvc", "one-svc", "eps-svr", "nu-svr", "eps-bsvr")) {
    stop("type '", type, "' of kernlab is not supported", call. = FALSE)
  }
  first <- slot(model, "xmatrix")
  first <- if (is.list(first)) first[[1]] else first
  if (!is.matrix(first) || !is.numeric(first) || !is(slot(model, "kernelf"), "kernel")) {
    stop("only models of kernlab that were trained on a matrix or a data frame are supported", call. = FALSE)
  }
  kernel <- kernlab_kernel(slot(model, "kernelf"))
  is_classes <- type %in% c("C-svc", "nu-svc", "C-bsvc")
  count <- slot(model, "nclass")
  text <- if (is_classes) {
    kernlab_classes(model, kernel, count)
  } else {
    task <- if (type == "one-svc") "one_class" else "epsilon_svr"
    libsvm_text(task, kernel, slot(model, "b"), as.matrix(unlist(slot(model, "coef"))), first)
  }
  scaling <- slot(model, "scaling")
  columns <- ncol(first)
  scaled <- if (is.list(scaling) && !is.null(scaling$x.scale)) scaling$scaled else FALSE
  levels <- slot(model, "lev")
  fields <- c(list(levels = if (is_classes) levels, codes = if (is_classes) seq_len(count),
                   is_factor = is.character(levels), columns = columns, names = colnames(first),
                   direction = if (is_classes) -1 else 1, rule = "kernlab", terms = kernlab_terms(model)),
              full_scaling(scaled, scaling$x.scale, columns),
              if (!is.null(scaling$y.scale) && !is_classes) value_scaling(scaling$y.scale))
  model_of_text(text, "kernlab::ksvm", fields)
}

kernlab_terms <- function(model) {
  found <- slot(model, "terms")
  if (inherits(found, "terms")) found
}
