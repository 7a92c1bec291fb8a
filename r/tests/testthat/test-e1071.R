skip_if_not_installed("e1071")

test_that("the source of the comparisons is e1071 itself", {
  expect_s3_class(e1071::svm(Species ~ ., iris), "svm")
})

test_that("labels, scores and probabilities are those of e1071 on iris", {
  for (kernel in c("linear", "polynomial", "radial", "sigmoid")) {
    set.seed(1)
    source <- e1071::svm(Species ~ ., iris, kernel = kernel, coef0 = 0.1, probability = TRUE)
    fast <- accelerate(source, iris, seconds = 0.2)
    expected <- predict(source, iris, decision.values = TRUE, probability = TRUE)
    scores <- predict(fast, iris, type = "decision")
    expect_identical(predict(fast, iris), predict(source, iris))
    expect_lt(largest(scores, attr(expected, "decision.values")), 1e-10)
    expect_identical(dimnames(scores), dimnames(attr(expected, "decision.values")))
    probabilities <- predict(fast, iris, type = "probability")
    expect_lt(largest(probabilities, attr(expected, "probabilities")), 1e-6)
    expect_identical(colnames(probabilities), colnames(attr(expected, "probabilities")))
  }
})

test_that("probabilities of two classes are those of e1071 up to its iteration", {
  set.seed(2)
  two <- droplevels(iris[51:150, ])
  source <- e1071::svm(Species ~ ., two, probability = TRUE)
  expected <- attr(predict(source, two, probability = TRUE), "probabilities")
  found <- predict(accelerate(source), two, type = "probability")
  # LIBSVM's iteration ends at 0.005 / 2.
  expect_lt(largest(found, expected), 0.005)
  expect_equal(unname(rowSums(found)), rep(1, 100))
})

test_that("classes keep e1071's order, which is that of the rows, and levels without rows stay", {
  shuffled <- iris[c(120:150, 1:30, 60:90), ]
  levels(shuffled$Species) <- c("setosa", "versicolor", "virginica")
  shuffled$Species <- factor(shuffled$Species, levels = c("none", "versicolor", "setosa", "virginica"))
  source <- e1071::svm(as.matrix(shuffled[, 1:4]), shuffled$Species)
  fast <- accelerate(source)
  expect_identical(predict(fast, iris[, 1:4]), predict(source, iris[, 1:4]))
  expected <- attr(predict(source, iris[, 1:4], decision.values = TRUE), "decision.values")
  expect_equal(predict(fast, iris[, 1:4], type = "decision"), expected, tolerance = 1e-12)
  two <- droplevels(shuffled[shuffled$Species != "setosa", ])
  source <- e1071::svm(Species ~ Petal.Length + Petal.Width, two, scale = c(TRUE, FALSE))
  expect_identical(predict(accelerate(source), iris), predict(source, iris))
})

test_that("nu-classification, one-classification and regressions are converted, scaling of values included", {
  x <- as.matrix(iris[, 1:4])
  source <- e1071::svm(x, iris$Species, type = "nu-classification", nu = 0.3)
  expect_identical(predict(accelerate(source), x), predict(source, x))
  source <- e1071::svm(x, type = "one-classification", nu = 0.2)
  expect_identical(predict(accelerate(source), x), predict(source, x))
  for (type in c("eps-regression", "nu-regression")) {
    for (scale in c(TRUE, FALSE)) {
      source <- e1071::svm(Sepal.Length ~ ., iris, type = type, scale = scale)
      fast <- accelerate(source)
      expect_equal(predict(fast, iris), predict(source, iris), tolerance = 1e-12)
      expect_error(predict(fast, iris, type = "probability"), "no probabilities")
      found <- predict(fast, iris, type = "certainty")
      expect_true(all(found$low <= found$label & found$label <= found$high))
    }
  }
})

test_that("labels against a threshold are those of the decision values", {
  two <- droplevels(iris[iris$Species != "setosa", ])
  models <- list(accelerate(e1071::svm(Species ~ ., two)),
                 accelerate(e1071::svm(Species ~ ., two), plan = "cascade(low_precision, exact)"),
                 accelerate(kernlab::ksvm(Species ~ ., two)))
  for (model in models) {
    scores <- predict(model, two, type = "decision")
    ends <- strsplit(colnames(scores), "/")[[1]]
    for (threshold in c(-1, 0, 0.3)) {
      expected <- factor(ifelse(scores[, 1] > threshold, ends[1], ends[2]), levels(two$Species))
      expect_equal(as.character(predict(model, two, threshold = threshold)), as.character(expected))
    }
    expect_gt(sum(predict(model, two, threshold = 0.3) != predict(model, two)), 0)
    expect_error(predict(model, two, threshold = NaN), "one number")
  }
  three <- accelerate(e1071::svm(Species ~ ., iris))
  expect_error(predict(three, iris, threshold = 0.5), "threshold")
})

test_that("rows with missing values are treated as e1071 treats them", {
  source <- e1071::svm(Species ~ ., iris)
  fast <- accelerate(source)
  holes <- iris
  holes[c(3, 77), 2] <- NA
  expect_identical(predict(fast, holes), predict(source, holes))
  expect_identical(predict(fast, holes, na.action = na.exclude), predict(source, holes, na.action = na.exclude))
  expect_error(predict(fast, holes, na.action = na.pass), "finite|number")
})

test_that("labels are those of e1071 on digits", {
  digits <- read.csv(file.path(repository(), "datasets", "digits", "digits.csv.gz"))
  x <- as.matrix(digits[, 1:64])
  y <- factor(digits$label)
  examples <- 1:1200
  source <- e1071::svm(x[examples, ], y[examples], gamma = 0.001, cost = 10, scale = FALSE)
  fast <- accelerate(source, x[1201:1500, ], seconds = 1)
  expect_identical(predict(fast, x), predict(source, x))
  expect_true(all(predict(fast, x, type = "certainty")$certainty %in% c("certified", "exact")))
})

test_that("labels are those of e1071 on a raster of 60,000 pixels, by several plans", {
  bench <- raster_functions()
  training <- bench$raster_pixels(300, 200, seed = 1)
  chosen <- seq(1, 60000, length.out = 600)
  source <- e1071::svm(training$bands[chosen, ], training$cover[chosen])
  raster <- bench$raster_pixels(300, 200, seed = 30)$bands
  expected <- predict(source, raster)
  fast <- accelerate(source, plan = "cascade(low_precision, exact)")
  expect_identical(predict(fast, raster), expected)
  expect_gt(sum(predict(fast, raster[1:2000, ], type = "certainty")$certainty == "certified"), 1000)
  tuned <- accelerate(source, bench$raster_pixels(20, 20, seed = 20)$bands, seconds = 0.5)
  expect_identical(predict(tuned, raster), expected)
})

test_that("sparse rows are taken as they are", {
  skip_if_not_installed("SparseM")
  skip_if_not_installed("Matrix")
  x <- as.matrix(iris[, 1:4])
  x[x < 1.5] <- 0
  source <- e1071::svm(SparseM::as.matrix.csr(x), iris$Species)
  fast <- accelerate(source)
  expected <- unname(predict(source, SparseM::as.matrix.csr(x)))
  expect_identical(unname(predict(fast, SparseM::as.matrix.csr(x))), expected)
  expect_identical(unname(predict(fast, Matrix::Matrix(x, sparse = TRUE))), expected)
  expect_identical(unname(predict(fast, x)), expected)
  scaled <- accelerate(e1071::svm(x, iris$Species))
  expect_error(predict(scaled, Matrix::Matrix(x, sparse = TRUE)), "as.matrix")
})
