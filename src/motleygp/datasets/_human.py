"""HUMAN, a patient's smartphone over time, and a synthetic stand-in of its shape.

HUMAN's data are private, so the preparation follows the paper and its authors' code and
has not been checked on the file. The binary output and the distance have the same
times; the number of active apps has its own.
"""

import numpy as np
from jaxtyping import Float

from motleygp.datasets._problem import Problem, Table, log_of, split_rows, standardised
from motleygp.datasets._raw import Arrays
from motleygp.likelihoods import Bernoulli, Beta, HetGaussian

_NAMES = ("at_home", "distance", "apps")
# The proportions stay inside this interval, as the authors' do.
_LEAST, _MOST = 1e-3, 0.99
# The stand-in: its rows, the length-scales of its processes on [0, 1], and the waves
# whose sum stands for a draw of a process.
_ROWS, _APP_ROWS = 5000, 21_000
_LENGTHSCALES = (1.0, 0.3, 0.1, 0.03, 0.01)
_NUM_WAVES = 200


def prepare(arrays: Arrays) -> Table:
    """At home or not; the log distance from home, standardised; the number of active
    apps, scaled to the unit interval."""
    apps = arrays["Ycount"].ravel()
    apps = apps - apps.min() + 0.1
    share = np.clip(2.0 * (apps / apps.max() - 1e-4), _LEAST, _MOST)
    distance = log_of("human", arrays["Yexp"].ravel())
    return _joined(
        arrays["X"].reshape(-1, 1),
        np.stack([arrays["Ybin"].ravel(), standardised(distance)], axis=1),
        arrays["Xapp"].reshape(-1, 1),
        share,
    )


def draw(seed: int) -> Problem:
    """The stand-in: outputs of HUMAN's types, drawn from smooth functions of a time in
    [0, 1] that mix five latent processes."""
    rng = np.random.default_rng([seed, _ROWS])
    x, x_apps = (np.sort(rng.random((n, 1)), axis=0) for n in (_ROWS, _APP_ROWS))
    processes = _processes(rng, np.concatenate([x, x_apps])[:, 0])
    f = rng.normal(size=(5, len(_LENGTHSCALES))) @ processes / np.sqrt(5.0)
    at_home = Bernoulli().sample(rng, f[:1, :_ROWS])
    distance = HetGaussian().sample(rng, f[1:3, :_ROWS])
    apps = Beta().sample(rng, f[3:, _ROWS:])
    y = np.stack([at_home, standardised(distance)], axis=1)
    return split_rows(rng, _joined(x, y, x_apps, np.clip(apps, _LEAST, _MOST)))


def _processes(
    rng: np.random.Generator, x: Float[np.ndarray, "N"]
) -> Float[np.ndarray, "Q N"]:
    """Draws of stationary processes, nearly Gaussian, as sums of random waves: exact
    draws at so many times would not fit into memory."""
    draws = []
    for lengthscale in _LENGTHSCALES:
        frequency = rng.normal(size=_NUM_WAVES) / lengthscale
        phase = 2.0 * np.pi * rng.random(_NUM_WAVES)
        waves = np.cos(x[:, None] * frequency + phase)
        draws.append(np.sqrt(2.0 / _NUM_WAVES) * waves.sum(axis=1))
    return np.stack(draws)


def _joined(
    x: Float[np.ndarray, "N 1"],
    y: Float[np.ndarray, "N 2"],
    x_apps: Float[np.ndarray, "S 1"],
    apps: Float[np.ndarray, "S"],
) -> Table:
    """One table of both kinds of rows, NaN where an output has no value."""
    joined = np.full((len(x) + len(x_apps), 3), np.nan)
    joined[: len(x), :2], joined[len(x) :, 2] = y, apps
    likelihoods = (Bernoulli(), HetGaussian(), Beta())
    return Table(np.concatenate([x, x_apps]), joined, likelihoods, _NAMES)
