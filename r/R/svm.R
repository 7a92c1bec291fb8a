# `svm`: training by libmercer with the arguments, the scaling and the defaults of e1071's svm().

# The methods do not have the names svm.formula and svm.default: e1071's generic of the same name would find them when it
# is called from this package's namespace, as tests do.
svm <- function(x, ...) UseMethod("svm")

svm_types <- c("C-classification", "nu-classification", "one-classification", "eps-regression", "nu-regression")

svm_formula <- function(formula, data = NULL, ..., subset, na.action = na.omit, scale = TRUE) {
  call <- match.call()
  frame <- match.call(expand.dots = FALSE)
  if (is.matrix(eval.parent(frame$data))) {
    frame$data <- as.data.frame(eval.parent(frame$data))
  }
  frame$... <- frame$scale <- NULL
  frame[[1L]] <- quote(stats::model.frame)
  frame$na.action <- na.action
  frame <- eval(frame, parent.frame())
  terms <- attr(frame, "terms")
  attr(terms, "intercept") <- 0
  x <- model.matrix(terms, frame)
  y <- model.extract(frame, "response")
  scale <- rep_len(scale, ncol(x))
  if (any(scale)) {
    # Columns that stand for categories are not scaled.
    unscaled <- unique(c(which(labels(terms) %in% names(attr(x, "contrasts"))), which(!scale)))
    scale <- !attr(x, "assign") %in% unscaled
  }
  model <- svm_default(x, y, scale = scale, ..., na.action = na.action)
  model$call <- call
  model$terms <- terms
  model$xlevels <- .getXlevels(terms, frame)
  model$na.action <- attr(frame, "na.action")
  model
}

svm_default <- function(x, y = NULL, scale = TRUE, type = NULL, kernel = "radial", degree = 3,
                        gamma = if (is.vector(x)) 1 else 1 / ncol(x), coef0 = 0, cost = 1, nu = 0.5,
                        class.weights = NULL, cachesize = 40, tolerance = 0.001, epsilon = 0.1, shrinking = TRUE,
                        cross = 0, probability = FALSE, fitted = TRUE, ..., subset = NULL, na.action = na.omit) {
  no_more(...)
  call <- match.call()
  force(gamma)
  type <- svm_type(type, y)
  data <- training_data(x, y, scale, type, subset, na.action)
  problem <- svm_problem(data, type, class.weights)
  problem$kernel <- svm_kernel(kernel, degree, gamma, coef0)
  problem$formulation <- svm_formulation(type, cost, nu, epsilon)
  problem$solver <- if (shrinking) NA_character_ else "smo(shrinking=off)"
  problem$numbers <- as.double(c(tolerance, cachesize * 2^20, limit(getOption("mercer.threads", 0), "threads")))
  trained <- train(problem)
  codes <- if (problem$is_classes) as.integer(.Call(C_info, trained$pointer)$classes)
  pointer <- trained$pointer
  if (probability && problem$is_classes) {
    pointer <- with_sigmoids(pointer, problem, codes)
  }
  model <- new_model(pointer, "mercer::svm", levels = problem$levels, codes = codes, columns = data$columns,
                     names = data$names, center = data$center, scale = data$scale, y_center = data$y_center,
                     y_scale = data$y_scale, type = type, call = call, na.action = data$act,
                     report = trained[setdiff(names(trained), "pointer")])
  if (cross > 0) {
    model <- c_model(model, cross_validate(problem, cross, data$y_scale))
  }
  if (fitted) {
    model <- c_model(model, fit_of(model, data))
  }
  model
}

# A model with more fields.
c_model <- function(model, fields) structure(c(unclass(model), fields), class = class(model))

svm_type <- function(type, y) {
  if (is.null(type)) {
    type <- if (is.null(y)) "one-classification" else if (is.factor(y)) "C-classification" else "eps-regression"
  }
  found <- pmatch(type, svm_types)
  if (is.na(found)) {
    stop("there is no type '", type, "'; there are ", paste(svm_types, collapse = ", "), call. = FALSE)
  }
  svm_types[found]
}

svm_kernel <- function(kernel, degree, gamma, coef0) {
  names <- c("linear", "polynomial", "radial", "sigmoid")
  found <- pmatch(kernel, names)
  if (is.na(found)) {
    stop("there is no kernel '", kernel, "'; there are ", paste(names, collapse = ", "), call. = FALSE)
  }
  text <- function(value) sprintf("%.17g", value)
  switch(found, "linear",
         paste0("polynomial(degree=", text(degree), ", gamma=", text(gamma), ", coef0=", text(coef0), ")"),
         paste0("rbf(gamma=", text(gamma), ")"),
         paste0("sigmoid(gamma=", text(gamma), ", coef0=", text(coef0), ")"))
}

svm_formulation <- function(type, cost, nu, epsilon) {
  text <- function(value) sprintf("%.17g", value)
  switch(type,
         "C-classification" = paste0("c_svc(C=", text(cost), ")"),
         "nu-classification" = paste0("nu_svc(nu=", text(nu), ")"),
         "one-classification" = paste0("one_class(nu=", text(nu), ")"),
         "eps-regression" = paste0("epsilon_svr(C=", text(cost), ", epsilon=", text(epsilon), ")"),
         "nu-regression" = paste0("nu_svr(nu=", text(nu), ", C=", text(cost), ")"))
}

# Rows and targets as they are trained on, and the scaling that was applied.
training_data <- function(x, y, scale, type, subset, na_action) {
  if (is_sparse(x)) {
    if (!is.null(subset)) {
      stop("'subset' is for dense rows", call. = FALSE)
    }
    rows <- compressed_rows(x)
    return(list(x = rows, y = y, source = x, y_source = y, columns = rows$columns, names = colnames(x),
                count = length(rows$starts) - 1))
  }
  act <- attr(x, "na.action")
  x <- as.matrix(x)
  if (!is.null(subset)) {
    x <- x[subset, , drop = FALSE]
    y <- y[subset]
  }
  keep <- if (is.null(y)) na_action(data.frame(x)) else na_action(data.frame(y, x))
  dropped <- attr(keep, "na.action")
  if (!is.null(dropped)) {
    act <- dropped
    x <- x[-dropped, , drop = FALSE]
    y <- y[-dropped]
  }
  storage.mode(x) <- "double"
  data <- list(x = x, y = y, source = x, y_source = y, columns = ncol(x), names = colnames(x), act = act,
               count = nrow(x))
  scaled_data(data, rep_len(scale, ncol(x)), type)
}

scaled_data <- function(data, scale, type) {
  if (!any(scale)) {
    return(data)
  }
  is_constant <- scale & !apply(data$x, 2, var)
  if (any(is_constant)) {
    warning("variable(s) ", paste(sQuote(colnames(data$x)[is_constant]), collapse = " and "),
            " constant: the data are not scaled", call. = FALSE)
    return(data)
  }
  columns <- scale(data$x[, scale, drop = FALSE])
  data$x[, scale] <- columns
  kept <- attributes(columns)[c("scaled:center", "scaled:scale")]
  data[c("center", "scale")] <- full_scaling(scale, kept, ncol(data$x))
  if (grepl("regression", type) && is.numeric(data$y)) {
    values <- scale(data$y)
    data[c("y_center", "y_scale")] <- value_scaling(attributes(values))
    data$y <- as.vector(values)
  }
  data
}

# What is trained: targets as numbers (classes by their place in `levels`), and weights of classes.
svm_problem <- function(data, type, class_weights) {
  problem <- list(x = data$x, count = data$count, is_classes = grepl("^(C|nu)-classification$", type),
                  labels = double(), factors = double())
  if (type == "one-classification") {
    return(problem)
  }
  if (length(data$y) != data$count) {
    stop("there are ", data$count, " rows and ", length(data$y), " targets", call. = FALSE)
  }
  if (!problem$is_classes) {
    if (!is.numeric(data$y)) {
      stop("the dependent variable of a regression is a number", call. = FALSE)
    }
    problem$y <- as.double(data$y)
    return(problem)
  }
  if (!is.factor(data$y) && any(as.integer(data$y) != data$y)) {
    stop("the dependent variable of a classification is a factor or a whole number", call. = FALSE)
  }
  classes <- as.factor(data$y)
  problem$levels <- levels(classes)
  problem$y <- as.double(as.integer(classes))
  if (!is.null(class_weights)) {
    if (identical(class_weights, "inverse")) {
      class_weights <- 1 / table(classes)
    }
    places <- match(names(class_weights), problem$levels)
    if (length(places) == 0 || anyNA(places)) {
      stop("class.weights have the names of levels: ", paste(problem$levels, collapse = ", "), call. = FALSE)
    }
    # A weight is for a class that is there.
    is_there <- places %in% problem$y
    problem$labels <- as.double(places[is_there])
    problem$factors <- as.double(class_weights)[is_there]
  }
  problem
}

train <- function(problem, rows = NULL) {
  x <- problem$x
  y <- problem$y
  if (!is.null(rows)) {
    x <- x[rows, , drop = FALSE]
    y <- y[rows]
  }
  is_there <- problem$labels %in% y
  .Call(C_train, x, y, c(problem$kernel, problem$formulation, problem$solver), problem$numbers,
        problem$labels[is_there], problem$factors[is_there])
}

# Answers to the training rows.
fit_of <- function(model, data) {
  model$terms <- NULL
  rows <- if (is_sparse(data$source)) {
    query_rows(model, data$source, na.omit)
  } else {
    list(rows = data$source, center = data$center, scale = data$scale, names = rownames(data$source))
  }
  decisions <- decide(model, rows, NULL, NULL, NULL, getOption("mercer.threads"))
  fitted <- labels_of(model, decisions, rows)
  scores <- named_matrix(scores_of(model, rows), rows)
  found <- list(fitted = fitted, decision.values = scores)
  if (is.numeric(fitted) && is.null(model$levels)) {
    found$residuals <- data$y_source - fitted
  }
  found
}
