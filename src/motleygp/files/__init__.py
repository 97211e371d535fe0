"""Files that keep models and runs, without pickle."""
