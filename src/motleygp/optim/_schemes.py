"""Training schemes: an optimiser of q(u) and one of theta, with their settings."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from motleygp.named import Named
from motleygp.optim import _checks
from motleygp.optim._descents import Descent, descent
from motleygp.optim._factor import FactorDescent
from motleygp.optim._natgrad import Guard, NaturalGradient
from motleygp.optim._point import Point
from motleygp.optim._q import AbstractQOptimiser
from motleygp.optim._schedules import Rate, RunningMeanRate
from motleygp.optim._theta import AbstractThetaOptimiser, ByName
from motleygp.optim._variational import Variational

_GUARD = Guard()
# The schemes with natural steps on q(u), the range of their lengths, and the length per
# share of the rows in a minibatch.
_NATURAL = ("fng", "hybrid")
_STEPS = (0.03, 0.1)
_NOISE = 1.3
# Runs without minibatches: windows of 50 iterations and nats per value, and the longer
# steps of q(u) and theta and the shorter ramp that the absence of their noise allows.
_SOON, _LITTLE = 3, 0.001
_LONG_BETA, _LONG_ALPHA, _SHORT_RAMP = 0.3, 0.002, 30
# p(theta) becomes narrower below about this number of values per weight; the narrowest
# one has this precision.
_VALUES_PER_WEIGHT, _NARROWEST = 50.0, 30.0


class Scheme(Named):
    """A training scheme: frozen data that can be printed, compared and saved.

    - `q`, `theta`: the optimisers of q(u) and theta.
    - `num_samples`: draws of theta per iteration.
    - `whitened`: whether the whitened q(v), v = L^-1 u, is carried from one theta to
      the next, or q(u) itself.
    - `warm_up`: iterations over which the steps ramp up.
    - `cool_down`: the last share of the run, over which the steps go to zero.
    - `patience`: windows of 50 iterations without a better mean of the bound after
      which a short cool-down begins early; `None` for never.
    - `tolerance`: a mean is better if it is higher by at least this, in nats per row
      and output, and by more than its standard error.
    - `refuse`: whether to refuse draws of theta at which the bound or a gradient is not
      finite; otherwise they end the run.
    - `polish`: at the end of the run, at most this many quasi-Newton steps of theta on
      all rows, each with the best q(u); they need a whitened q.
    """

    kind: ClassVar[str] = "scheme"
    name: ClassVar[str] = "scheme"

    q: AbstractQOptimiser
    theta: AbstractThetaOptimiser
    num_samples: int = 1
    whitened: bool = True
    warm_up: int = 0
    cool_down: float = 0.0
    patience: int | None = None
    tolerance: float = 0.0
    refuse: bool = True
    polish: int = 0

    def __check_init__(self) -> None:
        _checks.check_positive("num_samples", self.num_samples)
        _checks.check_not_negative("polish", self.polish)
        if self.polish and not self.whitened:
            raise ValueError("`polish` needs a whitened q(u); got `whitened=False`.")
        _checks.check_not_negative("warm_up", self.warm_up)
        _checks.check_share("cool_down", self.cool_down)
        _checks.check_not_negative("patience", self.patience)
        _checks.check_not_negative("tolerance", self.tolerance)


def fng(
    *,
    alpha: Rate = 0.001,
    beta: Rate = 0.1,
    gamma: Rate = 0.9,
    upsilon: Rate = 0.0,
    rho: Rate = 0.05,
    lambda_1: float = 1.0,
    max_std: float | None = 0.003,
    num_samples: int = 1,
    guard: Guard | None = _GUARD,
    warm_up: int = 100,
    cool_down: float = 0.6,
    patience: int | None = 20,
    tolerance: float = 0.0,
    polish: int = 0,
) -> Scheme:
    """Fully natural gradients: mirror descent on q(u), and on theta through q(theta).

    **Arguments:**

    - `alpha`, `gamma`: the step and momentum of theta, numbers or schedules.
    - `beta`, `upsilon`: the step and momentum of q(u), numbers or schedules.
    - `rho`: the rate at which p, by whose root the steps of theta are divided, follows
      the squared gradients; in the paper it is alpha.
    - `lambda_1`: the precision of p(theta), which is centred at the initial theta.
      Offsets and the likelihoods' own parameters are not penalised.
    - `max_std`: a limit on the standard deviation of the draws of theta.
    - `num_samples`: draws of theta per iteration.
    - `guard`: limits on the steps of q(u).
    - `warm_up`, `cool_down`, `patience`, `tolerance`, `polish`: see `Scheme`.
    """
    _checks.check_share("rho", rho)
    return Scheme(
        q=NaturalGradient(beta, momentum=upsilon, guard=guard),
        theta=Variational(
            alpha,
            momentum=gamma,
            # p starts as the mean of the first squared gradients. A slow average would
            # keep those, which are by far the largest, and so shorten all later steps.
            precision_step=RunningMeanRate(rho),
            prior_precision=ByName(lambda_1, (("offset", 0.0), ("likelihoods", 0.0))),
            prior_mean="initial",
            max_std=max_std,
        ),
        num_samples=num_samples,
        warm_up=warm_up,
        cool_down=cool_down,
        patience=patience,
        tolerance=tolerance,
        polish=polish,
    )


def hybrid(
    *,
    alpha: Rate = 0.01,
    beta: Rate = 0.1,
    upsilon: Rate = 0.0,
    guard: Guard | None = _GUARD,
    warm_up: int = 100,
    cool_down: float = 0.6,
    patience: int | None = 20,
    tolerance: float = 0.0,
) -> Scheme:
    """Natural gradients on q(u) (`beta`, `upsilon`) and Adam on theta (`alpha`)."""
    return Scheme(
        q=NaturalGradient(beta, momentum=upsilon, guard=guard),
        theta=Point(descent("adam", alpha)),
        warm_up=warm_up,
        cool_down=cool_down,
        patience=patience,
        tolerance=tolerance,
    )


def adam(*, alpha: Rate = 0.01, **ramps: Any) -> Scheme:
    """Adam on theta, and on the mean and the covariance factor of q(u).

    `warm_up`, `cool_down`, `patience` and `tolerance` are as in `fng`.
    """
    return _everywhere(descent("adam", alpha), ramps)


def sgd(*, alpha: Rate = 1e-6, **ramps: Any) -> Scheme:
    """Plain stochastic gradients on theta, and on the mean and factor of q(u).

    `warm_up`, `cool_down`, `patience` and `tolerance` are as in `fng`.
    """
    return _everywhere(descent("sgd", alpha), ramps)


def _everywhere(same: Descent, ramps: Mapping[str, Any]) -> Scheme:
    """The same descent on theta and on q(u)."""
    usual = {"warm_up": 100, "cool_down": 0.6, "patience": 20}
    return Scheme(q=FactorDescent(same), theta=Point(same), **{**usual, **ramps})


# The paper's theta_L and theta_kappa are the logarithms of the squared length-scales.
PAPER_UNITS = ByName(1.0, (("log_lengthscale", 2.0), ("log_smoothing", 2.0)))


def paper_initial_p(num_inputs: int) -> float:
    """The authors' initial p for their toy problems, by the number of inputs."""
    return {1: 1e4, 2: 1e3, 3: 500.0, 4: 100.0, 5: 50.0}.get(num_inputs, 10.0)


def paper(
    name: str,
    *,
    initial_p: float = 10.0,
    lambda_1: float = 1.0,
    step: float = 0.005,
    momentum: float = 0.9,
    sgd_step: float = 1e-7,
) -> Scheme:
    """A scheme with the paper's settings: no guard, no ramps, and an unwhitened q(u).

    **Arguments:**

    - `name`: "fng", "hybrid", "adam" or "sgd".
    - `initial_p`, `lambda_1`: for "fng", p at the start and the precision of p(theta),
      which is centred at 0.
    - `step`: the step of all optimisers except SGD.
    - `momentum`: gamma and upsilon, for "fng".
    - `sgd_step`: the step of SGD; the authors' 1e-15 moves nothing.
    """
    _checks.check_known("name", name, tuple(BY_NAME))
    by_adam, by_sgd = descent("adam", step), descent("sgd", sgd_step)
    explored = Variational(
        step,
        momentum=momentum,
        prior_precision=lambda_1,
        initial_p=initial_p,
        units=PAPER_UNITS,
    )
    pairs: dict[str, tuple[AbstractQOptimiser, AbstractThetaOptimiser]] = {
        "fng": (NaturalGradient(step, momentum=momentum, guard=None), explored),
        "hybrid": (NaturalGradient(step, guard=None), Point(by_adam, PAPER_UNITS)),
        "adam": (FactorDescent(by_adam), Point(by_adam, PAPER_UNITS)),
        "sgd": (FactorDescent(by_sgd), Point(by_sgd, PAPER_UNITS)),
    }
    return Scheme(*pairs[name], whitened=False, refuse=False)


BY_NAME: MappingProxyType[str, Callable[..., Scheme]] = MappingProxyType(
    {"fng": fng, "hybrid": hybrid, "adam": adam, "sgd": sgd}
)


def usual(
    name: str,
    *,
    share: float = 1.0,
    weights_per_value: float = 0.0,
    gain: float = 1.0,
    **settings: Any,
) -> Scheme:
    """The scheme of this name as the estimator chooses it, but with these settings.

    A natural step of length b follows the noise of minibatches: of the bound, about
    S b / (4 share) nats are lost for S inducing values. So b falls with the share, as
    far as the number of iterations allows. The weights that join the functions and the
    latent processes over-fit if values are few, so p(theta) is then narrower. Without
    minibatches there is little noise: steps are longer, and a run that gains little is
    soon over. With them the noise of full steps hides what is gained, and a run takes
    all iterations: much of its gain comes while the steps go to zero.

    **Arguments:**

    - `name`: "fng", "hybrid", "adam" or "sgd".
    - `share`: the share of the rows in a minibatch.
    - `weights_per_value`: the number of weights over that of observed values.
    - `gain`: the gain that is too small to go on, relative to the usual one.
    """
    whole = share >= 1.0
    usual: dict[str, Any] = {"patience": None}
    if whole:
        usual = {"patience": _SOON, "tolerance": gain * _LITTLE}
    if name in _NATURAL:
        noisy = float(np.clip(_NOISE * share, *_STEPS))
        usual |= {"beta": _LONG_BETA if whole else noisy}
    if name == "fng":
        precision = min(1.0 + (_VALUES_PER_WEIGHT * weights_per_value) ** 2, _NARROWEST)
        usual |= {"lambda_1": precision}
        usual |= {"alpha": _LONG_ALPHA, "warm_up": _SHORT_RAMP} if whole else {}
    return BY_NAME[name](**{**usual, **settings})
