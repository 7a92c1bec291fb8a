test_that("the examples of docs/guide/r.md run", {
  skip_if_not_installed("e1071")
  lines <- readLines(file.path(repository(), "docs", "guide", "r.md"))
  is_fence <- startsWith(lines, "```")
  begins <- which(lines == "```r")
  expect_gt(length(begins), 3)
  own <- new.env(parent = globalenv())
  for (begin in begins) {
    end <- min(which(is_fence & seq_along(lines) > begin))
    block <- parse(text = lines[(begin + 1):(end - 1)])
    capture.output(eval(block, own))
  }
  expect_s3_class(own$again, "mercer")
})
