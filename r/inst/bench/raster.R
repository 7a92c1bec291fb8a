# Labels of a synthetic raster of 300 x 200 pixels with 9 bands: e1071's predict() beside mercer's, in one run.
# Rscript -e 'source(system.file("bench", "raster.R", package = "mercer"))'
# Seconds are the best of several, elapsed and of the processor (all threads); the sample for the plan is other pixels than
# those that are measured.

library(mercer)

# Pixels of five kinds of land cover: smooth fields of cover, a spectrum for each kind, and noise of the sensor.
raster_pixels <- function(width, height, seed, bands = 9) {
  set.seed(seed)
  x <- rep(seq_len(width), height) / 60
  y <- rep(seq_len(height), each = width) / 60
  field <- function() {
    waves <- matrix(stats::rnorm(16), 4)
    waves[, 4] <- waves[, 4] / sqrt(sum(waves[, 4]^2))
    rowSums(apply(waves, 1, function(wave) sin(2 * wave[1] * x + 2 * wave[2] * y + 3 * wave[3]) * wave[4]))
  }
  cover <- max.col(vapply(1:5, function(kind) field(), double(width * height)))
  set.seed(7) # the spectra are those of every raster
  spectra <- matrix(stats::runif(5 * bands, 0.1, 0.6), 5)
  set.seed(seed + 1)
  noise <- matrix(stats::rnorm(length(cover) * bands, sd = 0.13), ncol = bands)
  pixels <- spectra[cover, ] * stats::runif(length(cover), 0.85, 1.15) + noise
  colnames(pixels) <- paste0("band", seq_len(bands))
  list(bands = pixels, cover = factor(c("water", "forest", "field", "town", "rock")[cover]))
}

# Elapsed seconds and those of the processor, each the best of several.
best_of <- function(times, ask) {
  found <- vapply(seq_len(times), function(i) {
    seconds <- system.time(ask())
    c(seconds[["elapsed"]], seconds[["user.self"]] + seconds[["sys.self"]])
  }, double(2))
  apply(found, 1, min)
}

bench_raster <- function(examples = 2500, seconds = 10, bands = 9) {
  training <- raster_pixels(300, 200, seed = 1, bands)
  chosen <- seq(1, 60000, length.out = examples)
  source <- e1071::svm(training$bands[chosen, ], training$cover[chosen], fitted = FALSE)
  sample <- raster_pixels(100, 100, seed = 20, bands)$bands
  search <- system.time(fast <- accelerate(source, sample, seconds = seconds))[["elapsed"]]
  raster <- raster_pixels(300, 200, seed = 30, bands)$bands
  expected <- predict(source, raster)
  models <- list(e1071 = source, exact = accelerate(source), accelerated = fast)
  cat(sprintf("raster: %d pixels, %d bands, %d classes, %d supports\n", nrow(raster), bands, nlevels(training$cover),
              source$tot.nSV))
  cat(sprintf("plan: %s, found in %.1f s\n", summary(fast)$plan, search))
  cat(sprintf("%-12s %8s %8s %10s %8s %10s\n", "", "seconds", "times", "processor", "times", "different"))
  base <- NULL
  for (name in names(models)) {
    found <- best_of(if (name == "e1071") 2 else 5, function() predict(models[[name]], raster))
    base <- if (is.null(base)) found else base
    cat(sprintf("%-12s %8.3f %8.1f %10.3f %8.1f %10d\n", name, found[1], base[1] / found[1], found[2],
                base[2] / found[2], sum(predict(models[[name]], raster) != expected)))
  }
  certainty <- table(predict(fast, raster, type = "certainty")$certainty)
  cat("certainty:", paste(names(certainty), certainty, collapse = ", "), "\n")
}

if (!isTRUE(getOption("mercer.bench.quiet"))) {
  bench_raster()
}
