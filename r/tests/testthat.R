library(testthat)
library(mercer)

test_check("mercer")
