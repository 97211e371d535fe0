"""Gaussian-process priors over the parameter functions."""

from motleygp.priors._base import AbstractPrior as AbstractPrior
from motleygp.priors._lmc import LMC as LMC
