"""The settings of the published experiments, by data set."""

import math
from typing import NamedTuple

PRIORS = ("lmc", "convolution")
SCHEMES = ("fng", "hybrid", "adam", "sgd")
_TOYS = ("t1", "t2", "t3")
# s_ini of a toy by the number of its inputs; 10 for any other number.
_TOY_PRECISION = {1: 10_000.0, 2: 1000.0, 3: 500.0, 4: 100.0, 5: 50.0}


class Settings(NamedTuple):
    """What a run of the published code is given.

    **Attributes:**

    - `name`, `prior`: the data set, and "lmc" or "convolution".
    - `num_latents`, `num_inducing`, `batch_size`: Q, M and B.
    - `initial_precision`: s_ini, at which p starts.
    - `prior_precision`: lambda_1, the precision of p(theta).
    - `lengthscale_factor`, `smoothing_factor`: c and c' of the length-scales' start.
    - `inputs`: how the inputs are prepared: a key of `preparation.PREPARATIONS`.
    - `step`: the step of natural gradients, of Adam and of the exploration.
    - `covariance_step`: the step of the precision of q(u). A comment of the code
      advises a tenth of it for the convolution prior; its script does not do so.
    - `sgd_step`: the step of SGD.
    - `first_rate`, `second_rate`: the rates of the averages of g and g^2.
    - `offset`: what Adam adds to the root of the second average.
    - `num_samples`: the draws of f per test point in a score.
    """

    name: str
    prior: str
    num_latents: int
    num_inducing: int
    batch_size: int
    initial_precision: float
    prior_precision: float
    lengthscale_factor: float
    smoothing_factor: float
    inputs: str
    step: float = 0.005
    covariance_step: float = 0.005
    sgd_step: float = 1e-15
    first_rate: float = 1 - 0.9
    second_rate: float = 1 - 0.999
    offset: float = 1e-8
    num_samples: int = 1000

    @property
    def convolved(self) -> bool:
        return self.prior == "convolution"


class _Set(NamedTuple):
    """The settings of a data set for both priors: `lmc` is c, `convolution` (c, c')."""

    num_latents: int
    num_inducing: int
    batch_size: int
    initial_precision: float
    prior_precision: float
    lmc: float
    convolution: tuple[float, float]
    inputs: str


_HUMAN = _Set(5, 80, 50, 1e4, 0.1, 0.1, (0.01, 0.1), "standardised")
_LONDON = _Set(3, 80, 50, 1000.0, 50.0, 0.1, (0.01, 0.1), "london")
_SARCOS = _Set(3, 80, 200, 10.0, 50.0, 0.1, (0.01, 0.01), "standardised")
# M and B are not known of these two: M = 80 and B = 50 are those of most sets, M = 20
# and B = 5 those of the other motions.
_TRAFFIC = _Set(3, 80, 50, 1000.0, 50.0, 0.1, (0.1, 0.1), "standardised")
_MOCAP9 = _Set(3, 20, 5, 1e4, 1e-8, 1.0, (0.1, 0.01), "raw")
_SETS = {
    "london": _LONDON,
    "london-flat": _LONDON,
    "naval": _Set(4, 80, 50, 10.0, 0.1, 1.0, (1.0, 1.0), "standardised"),
    "human": _HUMAN,
    "human-synthetic": _HUMAN,
    "sarcos": _SARCOS,
    "sarcos-4449": _SARCOS,
    "mocap7": _Set(3, 20, 5, 1e4, 1e-8, 1.0, (0.1, 0.1), "raw"),
    "mocap9": _MOCAP9,
    "traffic-8am": _TRAFFIC,
    "traffic-8am-unscaled": _TRAFFIC,
}


def settings_of(name: str, *, prior: str = "lmc", num_inputs: int = 1) -> Settings:
    """The settings of a data set; `num_inputs` is for the toys alone."""
    if prior not in PRIORS:
        known = " or ".join(map(repr, PRIORS))
        raise ValueError(f"`prior` must be {known}; got {prior!r}.")
    if name in _TOYS:
        found = _toy(name, num_inputs)
    elif name in _SETS:
        found = _SETS[name]
    else:
        known = ", ".join((*_TOYS, *_SETS))
        raise ValueError(f"the published code has no set {name!r}; known: {known}.")
    convolved = prior == "convolution"
    factor, smoothing = found.convolution if convolved else (found.lmc, math.nan)
    return Settings(
        name,
        prior,
        found.num_latents,
        found.num_inducing,
        found.batch_size,
        found.initial_precision,
        found.prior_precision,
        factor,
        smoothing,
        found.inputs,
    )


def _toy(name: str, num_inputs: int) -> _Set:
    precision = _TOY_PRECISION.get(num_inputs, 10.0)
    inputs = "tenfold" if name == "t1" else "raw"
    return _Set(3, 80, 50, precision, 1.0, 1.0, (0.1, 0.1), inputs)
