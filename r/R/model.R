# The class `mercer`: a model of libmercer, with what R has to know to ask it.
#
# pointer   external pointer to the model
# source    where it comes from, for people
# levels    names of the classes, or NULL
# codes     for each class of the machine, its place in `levels`
# is_factor whether answers are a factor
# columns   number of columns of a row
# center, scale       scaling of each column, or NULL
# y_center, y_scale   scaling of the values of a regression, or NULL
# direction -1 if a positive score of the source is for the second class of a pair (kernlab), else 1
# terms     terms of a formula, or NULL
# rule      how newdata becomes a matrix: "e1071", "kernlab" or "mercer"

new_model <- function(pointer, source, ..., class = NULL) {
  fields <- list(pointer = pointer, source = source, ...)
  known <- list(levels = NULL, codes = NULL, is_factor = TRUE, columns = NA, center = NULL, scale = NULL,
                y_center = NULL, y_scale = NULL, direction = 1, terms = NULL, xlevels = NULL, rule = "mercer")
  missing <- setdiff(names(known), names(fields))
  structure(c(fields, known[missing]), class = "mercer")
}

# The same model with another pointer.
with_pointer <- function(model, pointer) {
  model$pointer <- pointer
  model
}

info <- function(model) .Call(C_info, model$pointer)

# A model from LIBSVM model text; `fields` is what R has to know.
model_of_text <- function(text, source, fields) {
  pointer <- .Call(C_read, charToRaw(text), FALSE)
  do.call(new_model, c(list(pointer, source), fields))
}

print.mercer <- function(x, ...) {
  print(summary(x))
  invisible(x)
}

summary.mercer <- function(object, ...) {
  found <- list(source = object$source, columns = object$columns, levels = object$levels,
                is_alive = .Call(C_is_alive, object$pointer))
  if (found$is_alive) {
    found <- c(found, info(object))
  }
  structure(found, class = "summary.mercer")
}

print.summary.mercer <- function(x, ...) {
  cat("A model of mercer, from ", x$source, "\n", sep = "")
  if (!x$is_alive) {
    cat("  its pointer is dead; load it with load_model()\n")
    return(invisible(x))
  }
  answers <- switch(x$output, classes = paste("classes", paste(x$levels, collapse = ", ")),
                    value = "a value", novelty = "TRUE for rows like the training data")
  cat("  answers:  ", answers, if (x$has_probabilities) " (with probabilities)", "\n", sep = "")
  cat("  kernel:   ", x$kernel, "\n", sep = "")
  cat("  supports: ", x$supports, "\n", sep = "")
  cat("  plan:     ", x$plan, if (nzchar(x$contract)) paste0(", contract ", x$contract), "\n", sep = "")
  if (nzchar(x$left_out)) {
    cat("  left out: ", x$left_out, "\n", sep = "")
  }
  invisible(x)
}
