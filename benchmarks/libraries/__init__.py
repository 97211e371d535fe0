"""One script per library, each run in that library's own environment."""
