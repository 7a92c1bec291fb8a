# Cross-validation, and probabilities by sigmoids that are fitted to scores of held-out rows.

# For each row the number of its fold, 1 to `count`; the rows of each class are spread over the folds.
folds_of <- function(problem, count) {
  fold <- integer(problem$count)
  groups <- if (problem$is_classes) split(seq_len(problem$count), problem$y) else list(seq_len(problem$count))
  used <- 0
  for (rows in groups) {
    fold[rows[sample.int(length(rows))]] <- (used + seq_along(rows) - 1) %% count + 1
    used <- used + length(rows)
  }
  fold
}

need_dense <- function(problem, what) {
  if (!is.matrix(problem$x)) {
    stop(what, " needs dense rows", call. = FALSE)
  }
}

# Accuracies in percent, or mean squared errors, as e1071 names them.
cross_validate <- function(problem, count, y_scale) {
  need_dense(problem, "cross-validation")
  if (count > problem$count) {
    stop("'cross' is ", count, ", more than the number of rows", call. = FALSE)
  }
  fold <- folds_of(problem, count)
  answers <- double(problem$count)
  for (held_out in seq_len(count)) {
    asked <- fold == held_out
    pointer <- train(problem, !asked)$pointer
    answers[asked] <- .Call(C_decide, pointer, problem$x[asked, , drop = FALSE], NULL, NULL, rep(NA_real_, 4))$label
  }
  if (problem$is_classes) {
    is_right <- answers == problem$y
    return(list(accuracies = as.vector(tapply(is_right, fold, mean)) * 100, tot.accuracy = mean(is_right) * 100))
  }
  if (is.null(problem$y)) {
    is_right <- answers == 1
    return(list(accuracies = as.vector(tapply(is_right, fold, mean)) * 100, tot.accuracy = mean(is_right) * 100))
  }
  squares <- (answers - problem$y)^2 * (if (is.null(y_scale)) 1 else y_scale^2)
  list(MSE = as.vector(tapply(squares, fold, mean)), tot.MSE = mean(squares), scorrcoeff = cor(answers, problem$y)^2)
}

# The model with a sigmoid for each pair of classes, fitted in five folds.
with_sigmoids <- function(pointer, problem, codes) {
  need_dense(problem, "probability = TRUE")
  curves <- lapply(pair_scores(problem, codes), function(pair) sigmoid(pair$score, pair$is_first))
  values <- function(name) paste(sprintf("%.17g", vapply(curves, `[[`, 0, name)), collapse = " ")
  lines <- strsplit(rawToChar(.Call(C_write, pointer, "libsvm")), "\n", fixed = TRUE)[[1]]
  place <- which(startsWith(lines, "label "))[1]
  lines <- append(lines, c(paste("probA", values("a")), paste("probB", values("b"))), place)
  .Call(C_read, charToRaw(paste0(paste(lines, collapse = "\n"), "\n")), FALSE)
}

# For each pair of classes: scores of held-out rows of both, and whether they are of the first.
pair_scores <- function(problem, codes) {
  pairs <- class_pairs(length(codes))
  pairs[] <- codes[pairs]
  fold <- folds_of(problem, 5)
  scores <- matrix(NA_real_, problem$count, nrow(pairs))
  for (held_out in unique(fold)) {
    asked <- fold == held_out
    if (length(unique(problem$y[!asked])) < 2) {
      next
    }
    pointer <- train(problem, !asked)$pointer
    own <- as.integer(.Call(C_info, pointer)$classes)
    found <- .Call(C_scores, pointer, problem$x[asked, , drop = FALSE], NULL, NULL)
    # A class of a single row is missing where that row is held out; the order of the others stays.
    own_pairs <- class_pairs(length(own))
    own_pairs[] <- own[own_pairs]
    scores[asked, match(paste(own_pairs[, 1], own_pairs[, 2]), paste(pairs[, 1], pairs[, 2]))] <- found
  }
  lapply(seq_len(nrow(pairs)), function(p) {
    used <- problem$y %in% pairs[p, ] & !is.na(scores[, p])
    list(score = scores[used, p], is_first = problem$y[used] == pairs[p, 1])
  })
}

# a and b of 1 / (1 + exp(a f + b)) by Newton's method: H.-T. Lin, C.-J. Lin, R. C. Weng (2007), A note on Platt's
# probabilistic outputs for support vector machines, with the targets and the constants of LIBSVM.
sigmoid <- function(score, is_first) {
  first <- sum(is_first)
  second <- length(score) - first
  target <- ifelse(is_first, (first + 1) / (first + 2), 1 / (second + 2))
  loss <- function(a, b) {
    z <- score * a + b
    sum(target * z + pmax(-z, 0) + log1p(exp(-abs(z))))
  }
  a <- 0
  b <- log((second + 1) / (first + 1))
  value <- loss(a, b)
  for (iteration in 1:100) {
    p <- 1 / (1 + exp(score * a + b))
    d2 <- p * (1 - p)
    h11 <- sum(score^2 * d2) + 1e-12
    h22 <- sum(d2) + 1e-12
    h21 <- sum(score * d2)
    g1 <- sum(score * (target - p))
    g2 <- sum(target - p)
    if (abs(g1) < 1e-5 && abs(g2) < 1e-5) break
    det <- h11 * h22 - h21^2
    da <- -(h22 * g1 - h21 * g2) / det
    db <- -(-h21 * g1 + h11 * g2) / det
    slope <- g1 * da + g2 * db
    step <- 1
    while (step >= 1e-10 && loss(a + step * da, b + step * db) >= value + 1e-4 * step * slope) step <- step / 2
    if (step < 1e-10) break
    a <- a + step * da
    b <- b + step * db
    value <- loss(a, b)
  }
  list(a = a, b = b)
}
