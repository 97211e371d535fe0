"""The demonstration of variational optimisation on the paper's example.

g(theta) = 2 exp(-0.09 theta^2) sin(4.5 theta) has many minima. The paper starts at
mu = -3, sigma = 3, follows q(theta) = N(mu, sigma^2) without and with a KL term, and
compares Newton's method. The demonstration repeats this from many seeds. It also uses
exact expectations instead of samples, and the exact Hessian instead of the Gauss-Newton
curvature.
"""

from motleygp.demos.vo.demonstration import run
from motleygp.demos.vo.example import (
    EQUAL_STEPS,
    KL,
    KL_HESSIAN,
    MINIMA,
    NO_KL,
    NO_KL_HESSIAN,
    PENALISED,
    PRIOR_PRECISION,
    TOLERANCE,
    expected,
    objective,
)
from motleygp.demos.vo.runs import ends, many, newton, shares, without_noise

__all__ = [
    "EQUAL_STEPS",
    "KL",
    "KL_HESSIAN",
    "MINIMA",
    "NO_KL",
    "NO_KL_HESSIAN",
    "PENALISED",
    "PRIOR_PRECISION",
    "TOLERANCE",
    "ends",
    "expected",
    "many",
    "newton",
    "objective",
    "run",
    "shares",
    "without_noise",
]
