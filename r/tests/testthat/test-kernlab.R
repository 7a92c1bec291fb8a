skip_if_not_installed("kernlab")

test_that("labels and scores are those of kernlab, for its kernels and types of classification", {
  kernels <- list(rbfdot = list(sigma = 0.3), vanilladot = list(), polydot = list(degree = 2, scale = 0.5, offset = 1),
                  tanhdot = list(scale = 0.01, offset = 0.1))
  for (kernel in names(kernels)) {
    for (type in c("C-svc", "nu-svc", "C-bsvc")) {
      source <- kernlab::ksvm(Species ~ ., iris, kernel = kernel, kpar = kernels[[kernel]], type = type, nu = 0.1)
      fast <- accelerate(source)
      expect_identical(unname(predict(fast, iris)), kernlab::predict(source, iris))
      scores <- kernlab::predict(source, iris, type = "decision")
      expect_lt(largest(predict(fast, iris, type = "decision"), scores), 1e-9 * max(1, abs(scores)))
    }
  }
})

test_that("two classes keep kernlab's sign, in scores and in ranges", {
  two <- droplevels(iris[51:150, ])
  source <- kernlab::ksvm(Species ~ ., two, C = 5)
  fast <- accelerate(source, two, seconds = 0.2)
  score <- kernlab::predict(source, two, type = "decision")[, 1]
  found <- predict(fast, two, type = "certainty")
  expect_true(all(found$low <= score + 1e-12 & score - 1e-12 <= found$high))
  expect_identical(colnames(predict(fast, two, type = "decision")), "virginica/versicolor")
})

test_that("probabilities are those of kernlab", {
  set.seed(3)
  two <- droplevels(iris[51:150, ])
  source <- kernlab::ksvm(Species ~ ., two, prob.model = TRUE)
  probabilities <- predict(accelerate(source), two, type = "probability")
  expected <- kernlab::predict(source, two, type = "probabilities")
  expect_lt(largest(probabilities, expected), 1e-6)
  expect_identical(colnames(probabilities), colnames(expected))
  source <- kernlab::ksvm(Species ~ ., iris, prob.model = TRUE)
  # LIBSVM's iteration for several classes ends at 0.005 / 3, kernlab solves the equations.
  expect_lt(largest(predict(accelerate(source), iris, type = "probability"),
                    kernlab::predict(source, iris, type = "probabilities")), 0.005)
})

test_that("regressions, one class, numbers as classes and unscaled rows are converted", {
  for (type in c("eps-svr", "nu-svr", "eps-bsvr")) {
    source <- kernlab::ksvm(Sepal.Length ~ ., iris, type = type)
    expect_equal(unname(predict(accelerate(source), iris)), kernlab::predict(source, iris)[, 1], tolerance = 1e-10)
  }
  x <- as.matrix(iris[, 1:4])
  source <- kernlab::ksvm(x, type = "one-svc", nu = 0.2)
  expect_identical(unname(predict(accelerate(source), x)), kernlab::predict(source, x)[, 1])
  source <- kernlab::ksvm(x, c(10, 20, 30)[iris$Species], type = "C-svc", scaled = FALSE)
  expect_identical(unname(predict(accelerate(source), x)), kernlab::predict(source, x))
})

test_that("what cannot be converted is refused with a sentence", {
  x <- as.matrix(iris[, 1:4])
  expect_error(accelerate(kernlab::ksvm(x, iris$Species, kernel = "laplacedot")), "laplacekernel.*not supported")
  expect_error(accelerate(kernlab::ksvm(x, iris$Species, type = "spoc-svc")), "spoc-svc.*not supported")
  gram <- kernlab::kernelMatrix(kernlab::rbfdot(0.2), x)
  expect_error(accelerate(kernlab::ksvm(gram, iris$Species)), "matrix or a data frame")
})
