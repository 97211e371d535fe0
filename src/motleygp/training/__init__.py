"""Training: the start, one pure step, runs of it, restarts and checkpoints."""
