x <- as.matrix(iris[, 1:4])

test_that("svm trains the machine of e1071: all types and kernels", {
  skip_if_not_installed("e1071")
  for (kernel in c("linear", "polynomial", "radial", "sigmoid")) {
    ours <- svm(Species ~ ., iris, kernel = kernel, tolerance = 1e-5)
    theirs <- e1071::svm(Species ~ ., iris, kernel = kernel, tolerance = 1e-5)
    expect_identical(predict(ours, iris), predict(theirs, iris))
    expect_lt(largest(ours$decision.values, theirs$decision.values), 1e-3)
    expect_identical(ours$fitted, theirs$fitted)
  }
  ours <- svm(x, iris$Species, type = "nu-classification", nu = 0.2, tolerance = 1e-5)
  theirs <- e1071::svm(x, iris$Species, type = "nu-classification", nu = 0.2, tolerance = 1e-5)
  expect_identical(predict(ours, x), predict(theirs, x))
  for (type in c("eps-regression", "nu-regression")) {
    ours <- svm(Sepal.Length ~ ., iris, type = type, tolerance = 1e-5)
    theirs <- e1071::svm(Sepal.Length ~ ., iris, type = type, tolerance = 1e-5)
    expect_lt(largest(predict(ours, iris), predict(theirs, iris)), 1e-3)
    expect_lt(largest(residuals(ours), residuals(theirs)), 1e-3)
  }
  ours <- svm(x, nu = 0.2, tolerance = 1e-6)
  theirs <- e1071::svm(x, nu = 0.2, tolerance = 1e-6)
  # Rows on the boundary have the score 0 up to the tolerance, so scores are compared, not labels.
  expect_lt(largest(ours$decision.values, theirs$decision.values), 1e-3)
})

test_that("categories, subsets, weights, missing values and constant columns are treated as e1071 treats them", {
  skip_if_not_installed("e1071")
  cars <- transform(mtcars, cyl = factor(cyl), am = factor(am))
  ours <- svm(am ~ mpg + cyl + wt, cars, tolerance = 1e-6)
  theirs <- e1071::svm(am ~ mpg + cyl + wt, cars, tolerance = 1e-6)
  expect_identical(predict(ours, cars), predict(theirs, cars))
  # e1071 needs all levels in newdata; we remember them.
  expect_identical(predict(ours, droplevels(cars[1:2, ])), predict(ours, cars)[1:2])
  weights <- c(setosa = 1, versicolor = 10, virginica = 1)
  ours <- svm(Species ~ ., iris, class.weights = weights, subset = 31:130, tolerance = 1e-6)
  theirs <- e1071::svm(Species ~ ., iris, class.weights = weights, subset = 31:130, tolerance = 1e-6)
  expect_identical(predict(ours, iris), predict(theirs, iris))
  holes <- iris
  holes[5:9, 1] <- NA
  expect_identical(svm(Species ~ ., holes)$fitted, e1071::svm(Species ~ ., holes)$fitted)
  expect_warning(ours <- svm(cbind(x, one = 1), iris$Species), "'?one.* constant")
  expect_identical(suppressWarnings(unname(e1071::svm(cbind(x, one = 1), iris$Species)$fitted)), unname(ours$fitted))
})

test_that("probabilities and cross-validation are near those of e1071, and follow the seed", {
  skip_if_not_installed("e1071")
  set.seed(1)
  ours <- svm(Species ~ ., iris, probability = TRUE, cross = 5)
  theirs <- e1071::svm(Species ~ ., iris, probability = TRUE)
  expected <- attr(predict(theirs, iris, probability = TRUE), "probabilities")
  found <- predict(ours, iris, type = "probability")
  # e1071 under another seed is up to 0.1 from itself.
  expect_lt(largest(found[, colnames(expected)], expected), 0.15)
  expect_equal(unname(rowSums(found)), rep(1, 150))
  expect_length(ours$accuracies, 5)
  expect_gt(ours$tot.accuracy, 93)
  set.seed(1)
  expect_identical(predict(svm(Species ~ ., iris, probability = TRUE), iris, type = "probability"), found)
  regression <- svm(Sepal.Length ~ ., iris, cross = 5)
  expect_lt(regression$tot.MSE, 0.2)
  expect_gt(regression$scorrcoeff, 0.8)
})

test_that("the sigmoid is the one of the likelihood", {
  set.seed(4)
  score <- rnorm(400)
  is_first <- runif(400) < 1 / (1 + exp(-2 * score + 0.5))
  found <- mercer:::sigmoid(score, is_first)
  target <- ifelse(is_first, (sum(is_first) + 1) / (sum(is_first) + 2), 1 / (sum(!is_first) + 2))
  expected <- suppressWarnings(coef(glm(target ~ score, family = binomial)))
  expect_equal(c(-found$b, -found$a), unname(expected), tolerance = 1e-4)
})

test_that("wrong arguments are refused with a sentence", {
  expect_error(svm(x, iris$Species, kernel = "cubic"), "no kernel 'cubic'")
  expect_error(svm(x, iris$Species, type = "ranking"), "no type 'ranking'")
  expect_error(svm(x, iris$Species, speed = 1), "no argument 'speed'")
  expect_error(svm(x, iris$Species, cost = -1), "C")
  expect_error(svm(x, iris$Species[-1]), "149|149 targets|differing")
  expect_error(svm(x, iris$Species, class.weights = c(rose = 1)), "names of levels")
  expect_error(svm(x, iris$Species, cross = 200), "200")
  expect_error(svm(x, letters[rep(1:2, 75)], type = "eps-regression"), "regression")
})
