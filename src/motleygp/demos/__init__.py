"""Demonstrations for the command: `demo`, and `vo` for variational optimisation."""
