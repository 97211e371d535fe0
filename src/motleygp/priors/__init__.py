"""Gaussian-process priors over the parameter functions."""

from motleygp.priors._base import AbstractPrior as AbstractPrior, sample as sample
from motleygp.priors._convolution import (
    AbstractConvolution as AbstractConvolution,
    Convolution as Convolution,
    LatentConvolution as LatentConvolution,
)
from motleygp.priors._lmc import LMC as LMC
from motleygp.priors._sites import (
    Sites as Sites,
    everywhere as everywhere,
    join as join,
    pick as pick,
)
