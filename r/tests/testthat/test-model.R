x <- as.matrix(iris[, 1:4])

test_that("the data frame of certainty and cost is complete, and a budget leaves rows unsettled", {
  model <- accelerate(svm(Species ~ ., iris, cost = 10), plan = "cascade(low_precision, exact)")
  found <- predict(model, iris, type = "certainty")
  expect_named(found, c("label", "certainty", "cost", "low", "high", "stage"))
  expect_identical(found$label, unname(predict(model, iris)))
  expect_true(all(found$certainty %in% c("certified", "exact")))
  expect_true(all(found$cost > 0 & found$low <= found$high))
  tight <- predict(model, iris, type = "certainty", budget = 1)
  expect_true(all(tight$certainty == "unsettled"))
  # Unsettled queries carry the best label known; the data frame marks them, and a warning counts them.
  expect_identical(levels(tight$certainty), c("unsettled", "calibrated", "certified", "exact"))
  expect_warning(labels <- predict(model, iris, budget = 1), "150 of 150 labels are unsettled")
  expect_identical(unname(labels), tight$label)
  expect_false(anyNA(labels))
  # A plan that leaves some rows to the exact stage, and a budget that this stage exceeds.
  model <- accelerate(model, plan = "cascade(anytime, exact)")
  found <- predict(model, iris, type = "certainty")
  some <- predict(model, iris, type = "certainty", budget = max(found$cost) - 1)
  is_open <- some$certainty == "unsettled"
  expect_identical(is_open, found$certainty == "exact")
  expect_true(any(is_open) && !all(is_open))
  expect_identical(some$label[!is_open], found$label[!is_open])
})

test_that("models are kept in R's file with scaling and plan, and in the library's own formats", {
  path <- tempfile(fileext = ".rds")
  model <- accelerate(svm(Species ~ ., iris, probability = TRUE), plan = "cascade(low_precision, exact)")
  save_model(model, path)
  again <- load_model(path)
  expect_identical(predict(again, iris), predict(model, iris))
  expect_identical(predict(again, iris, type = "probability"), predict(model, iris, type = "probability"))
  expect_identical(summary(again)$plan, summary(model)$plan)
  expect_identical(summary(verify_plan(again))$left_out, "")
  for (format in c("mercer", "libsvm")) {
    save_model(model, path, format)
    machine <- load_model(path)
    expect_identical(as.integer(as.character(predict(machine, scale(x)))), as.integer(predict(model, iris)))
  }
  expect_error(save_model(model, path, "docx"), "docx")
  expect_error(save_model(model, file.path(tempdir(), "none", "m.rds")), "no folder")
  expect_error(load_model(file.path(tempdir(), "none")), "no file")
  writeLines("not a model", path)
  expect_error(load_model(path))
  saveRDS(1, path)
  expect_error(load_model(path), "not a file of save_model")
})

test_that("a model of a loaded workspace says that it is gone", {
  path <- tempfile()
  model <- svm(Species ~ ., iris)
  save(model, file = path)
  rm(model)
  load(path)
  expect_error(predict(model, iris), "the model is gone.*load_model")
  expect_error(save_model(model, tempfile()), "the model is gone")
  expect_output(print(model), "pointer is dead")
})

test_that("a forked process answers with a model of its own", {
  skip_on_os("windows")
  model <- accelerate(svm(Species ~ ., iris), plan = "cascade(low_precision, exact)")
  expected <- predict(model, iris)
  found <- parallel::mclapply(1:2, function(i) predict(model, iris), mc.cores = 2)
  expect_identical(found, list(expected, expected))
  expect_identical(predict(model, iris), expected)
})

test_that("errors are sentences", {
  model <- svm(Species ~ ., iris)
  expect_error(accelerate(lm(Sepal.Length ~ ., iris)), "not of class 'lm'")
  expect_error(accelerate(model, iris, contract = "certain"), "certain")
  expect_error(accelerate(model, plan = "cascade(exact, exact)"))
  expect_error(accelerate(model, iris[1:5, ]), "5")
  expect_error(accelerate(model, iris, speed = 1), "no argument 'speed'")
  expect_error(predict(model, iris, type = "probability"), "no probabilities")
  expect_error(predict(model, iris, budget = -1), "budget")
  expect_error(predict(model, iris, budget = "x"), "budget")
  expect_error(predict(svm(x, iris$Species), x[, 1:3]), "3 columns, the model has 4")
  expect_error(predict(svm(x, iris$Species), matrix("a", 2, 4)), "not numbers")
  expect_error(predict(svm(x, iris$Species), x * Inf), "finite|number")
})

test_that("no rows give no answers, and many rows are answered chunk by chunk", {
  model <- svm(x, iris$Species)
  expect_length(predict(model, x[0, , drop = FALSE]), 0)
  many <- x[rep(1:150, length.out = 2 * 2^14 + 10), ]
  expect_identical(as.integer(predict(model, many)), rep(as.integer(predict(model, x)), length.out = nrow(many)))
  many[nrow(many), 1] <- NaN
  expect_error(predict(model, many, na.action = na.pass), "rows after 32768")
})
