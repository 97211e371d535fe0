"""Files of models and checkpoints, without pickle."""
