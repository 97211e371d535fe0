"""Optimisers: training schemes, natural gradients, variational optimisation."""

from motleygp.optim._factor import factor_descent as factor_descent
from motleygp.optim._full_variational import (
    FullVariationalState as FullVariationalState,
    GaussianGradients as GaussianGradients,
    exact_hessian as exact_hessian,
    full_variational as full_variational,
    gauss_newton as gauss_newton,
)
from motleygp.optim._natgrad import (
    Guard as Guard,
    NatGradInfo as NatGradInfo,
    NatGradState as NatGradState,
    NaturalGradient as NaturalGradient,
    natural_gradient as natural_gradient,
)
from motleygp.optim._point import point as point
from motleygp.optim._schemes import (
    BY_NAME as BY_NAME,
    Scheme as Scheme,
    adam as adam,
    fng as fng,
    hybrid as hybrid,
    paper as paper,
    paper_initial_p as paper_initial_p,
    sgd as sgd,
)
from motleygp.optim._variational import (
    VariationalOptimiser as VariationalOptimiser,
    VariationalState as VariationalState,
    retract as retract,
    variational as variational,
)
from motleygp.optim._variational_adam import (
    VariationalAdamState as VariationalAdamState,
    variational_adam as variational_adam,
)
