"""Optimisers: natural gradients for q(u)."""

from motleygp.optim._natgrad import (
    Guard as Guard,
    NatGradInfo as NatGradInfo,
    NatGradState as NatGradState,
    NaturalGradient as NaturalGradient,
    natural_gradient as natural_gradient,
)
