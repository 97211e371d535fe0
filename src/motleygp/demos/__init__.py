"""Demonstrations that the command runs: `demo`, and `vo`, variational optimisation."""
