# Plans that tests verify are not remembered for the user.
Sys.setenv(MERCER_CACHE_DIR = tempfile("cache"))
options(mercer.threads = 2)

# The folder of the repository; the package alone has neither its data sets nor its guide.
repository <- function() {
  folder <- Sys.getenv("MERCER_REPOSITORY")
  skip_if(!dir.exists(folder), "MERCER_REPOSITORY does not name the folder of the repository")
  folder
}

largest <- function(a, b) max(abs(unname(as.matrix(a)) - unname(as.matrix(b))))

# Functions of the measurement, without running it.
raster_functions <- function() {
  old <- options(mercer.bench.quiet = TRUE)
  on.exit(options(old))
  found <- new.env()
  sys.source(system.file("bench", "raster.R", package = "mercer"), found)
  found
}
