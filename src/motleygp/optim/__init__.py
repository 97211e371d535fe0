"""Optimisers: training schemes, natural gradients, variational optimisation."""

from motleygp.optim._descents import Descent as Descent, descent as descent
from motleygp.optim._factor import FactorDescent as FactorDescent
from motleygp.optim._full_variational import (
    FullVariational as FullVariational,
    GaussianGradients as GaussianGradients,
    exact_hessian as exact_hessian,
    gauss_newton as gauss_newton,
)
from motleygp.optim._natgrad import (
    Guard as Guard,
    NatGradState as NatGradState,
    NaturalGradient as NaturalGradient,
)
from motleygp.optim._point import Point as Point
from motleygp.optim._q import AbstractQOptimiser as AbstractQOptimiser, QInfo as QInfo
from motleygp.optim._schedules import (
    AbstractSchedule as AbstractSchedule,
    OptaxSchedule as OptaxSchedule,
    Rate as Rate,
    RunningMeanRate as RunningMeanRate,
    schedule as schedule,
)
from motleygp.optim._schemes import (
    BY_NAME as BY_NAME,
    PAPER_UNITS as PAPER_UNITS,
    Scheme as Scheme,
    adam as adam,
    fng as fng,
    hybrid as hybrid,
    paper as paper,
    paper_initial_p as paper_initial_p,
    sgd as sgd,
    usual as usual,
)
from motleygp.optim._theta import (
    AbstractDiagonal as AbstractDiagonal,
    AbstractThetaOptimiser as AbstractThetaOptimiser,
    ByName as ByName,
    ThetaState as ThetaState,
    retract as retract,
)
from motleygp.optim._variational import Variational as Variational
from motleygp.optim._variational_adam import VariationalAdam as VariationalAdam
