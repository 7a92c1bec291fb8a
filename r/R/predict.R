# Answers of a model.

certainties <- c("unsettled", "calibrated", "certified", "exact")

predict.mercer <- function(object, newdata, type = c("label", "decision", "probability", "certainty"), budget = NULL,
                           tolerance = NULL, threshold = NULL, threads = getOption("mercer.threads"),
                           na.action = na.omit, ...) {
  no_more(...)
  type <- match.arg(type)
  if (missing(newdata)) {
    if (is.null(object$fitted) || type != "label") {
      stop("newdata is missing", call. = FALSE)
    }
    return(object$fitted)
  }
  rows <- query_rows(object, newdata, na.action)
  switch(type,
         decision = named_matrix(scores_of(object, rows), rows),
         probability = named_matrix(probabilities_of(object, rows), rows),
         label = labels_of(object, decide(object, rows, budget, tolerance, threshold, threads), rows),
         certainty = certainty_frame(object, decide(object, rows, budget, tolerance, threshold, threads), rows))
}

named_matrix <- function(values, rows) {
  rownames(values) <- rows$names
  napredict(rows$act, values)
}

decide <- function(object, rows, budget, tolerance, threshold, threads) {
  allowed <- c(limit(budget, "budget"), limit(tolerance, "tolerance"), limit(threads, "threads"),
               border(object, threshold))
  if (!is.null(object$y_scale)) {
    allowed[2] <- allowed[2] / object$y_scale
  }
  .Call(C_decide, object$pointer, rows$rows, rows$center, rows$scale, allowed)
}

# A number from 0, or NA for what the model was tuned for.
limit <- function(value, name) {
  if (is.null(value)) {
    return(NA_real_)
  }
  if (!is.numeric(value) || length(value) != 1 || !is.finite(value) || value < 0) {
    stop("'", name, "' is one number, 0 or more", call. = FALSE)
  }
  as.double(value)
}

# The threshold of the machine's own score, or NA; the source's score may have the other sign.
border <- function(object, threshold) {
  if (is.null(threshold)) {
    return(NA_real_)
  }
  if (!is.numeric(threshold) || length(threshold) != 1 || !is.finite(threshold)) {
    stop("'threshold' is one number", call. = FALSE)
  }
  as.double(threshold) * object$direction
}

# Labels as the source of the model gives them: a factor, numbers, or TRUE and FALSE.
answers_of <- function(object, decisions) {
  if (!is.null(object$levels)) {
    places <- object$codes[decisions$class]
    if (object$is_factor) {
      return(structure(places, levels = as.character(object$levels), class = "factor"))
    }
    return(object$levels[places])
  }
  if (info(object)$output == "novelty") {
    return(decisions$label == 1)
  }
  unscaled(object, decisions$label)
}

unscaled <- function(object, values) {
  if (is.null(object$y_scale)) values else values * object$y_scale + object$y_center
}

labels_of <- function(object, decisions, rows) {
  answers <- answers_of(object, decisions)
  unsettled <- sum(decisions$certainty == 1L)
  if (unsettled > 0) {
    warning(unsettled, " of ", length(answers), " labels are unsettled: the budget was spent before they were certain; ",
            "type = \"certainty\" says which", call. = FALSE)
  }
  names(answers) <- rows$names
  napredict(rows$act, answers)
}

certainty_frame <- function(object, decisions, rows) {
  low <- unscaled(object, decisions$low)
  high <- unscaled(object, decisions$high)
  # The range of the one score of two classes has the sign of the source's score.
  if (object$direction < 0 && length(object$codes) == 2) {
    low <- -decisions$high
    high <- -decisions$low
  }
  certainty <- structure(decisions$certainty, levels = certainties, class = "factor")
  data.frame(label = answers_of(object, decisions), certainty = certainty, cost = decisions$cost, low = low,
             high = high, stage = decisions$stage, row.names = rows$names)
}

scores_of <- function(object, rows) {
  scores <- .Call(C_scores, object$pointer, rows$rows, rows$center, rows$scale) * object$direction
  if (is.null(object$levels)) {
    # As e1071: the score of a regression is the value before it is scaled back.
    return(scores)
  }
  pairs <- class_pairs(length(object$codes))
  names <- object$levels[object$codes]
  ends <- if (object$direction < 0) pairs[, 2:1, drop = FALSE] else pairs
  if (ncol(scores) == nrow(pairs)) {
    colnames(scores) <- paste0(names[ends[, 1]], "/", names[ends[, 2]])
  }
  scores
}

probabilities_of <- function(object, rows) {
  if (!info(object)$has_probabilities) {
    stop("the model has no probabilities: train it with probability = TRUE (kernlab: prob.model = TRUE)", call. = FALSE)
  }
  found <- .Call(C_probabilities, object$pointer, rows$rows, rows$center, rows$scale)
  colnames(found) <- object$levels[object$codes]
  found
}
