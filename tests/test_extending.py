"""A kernel, a prior and a likelihood of one's own, each one class, through everything.

They are defined here and nowhere else: no list names them.
"""

import dataclasses
import json
import re
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import scipy.stats
from jaxtyping import Array, Float

import motleygp as mg
from motleygp.kernels import AbstractKernel, squared_distance
from motleygp.likelihoods import AbstractLikelihood
from motleygp.priors import LMC
from motleygp.training.initialise import unexplained_share

pytestmark = pytest.mark.usefixtures("quick_compilation")


class Laplace(AbstractLikelihood):
    """y ~ Laplace(f, scale), the scale learned."""

    name: ClassVar[str] = "laplace"
    functions: ClassVar[tuple[str, ...]] = ("median",)
    support: ClassVar[str] = "a real number"
    discrete: ClassVar[bool] = False
    real: ClassVar[bool] = True
    parts: ClassVar[dict[str, str]] = {"scale": "log_scale"}

    log_scale: Float[Array, ""]
    num_nodes: int = eqx.field(static=True, default=20)

    def __init__(self, scale: float = 1.0):
        self.log_scale = jnp.log(jnp.asarray(scale, dtype=float))

    @classmethod
    def claims(cls, y, column):
        return "named after its tails" if y.max() > 1e3 else None

    def parameters(self):
        return {"scale": jnp.exp(self.log_scale)}

    def with_parameters(self, values):
        if not values["scale"] > 0:
            raise ValueError(f"`scale` must be positive; got {values['scale']:g}.")
        return self._with(jnp.log(float(values["scale"])))

    def at_start(self, f, unexplained):
        return self._with(self.log_scale + 0.5 * np.log(unexplained)), f

    def in_units(self, scale):
        return self._with(self.log_scale - np.log(scale))

    def _with(self, log_scale):
        return eqx.tree_at(lambda lik: lik.log_scale, self, log_scale)

    def log_prob(self, y, f):
        distance = jnp.abs(y - f[0]) * jnp.exp(-self.log_scale)
        return -distance - self.log_scale - jnp.log(2.0)

    def conditional_mean(self, f):
        return f[0]

    def conditional_variance(self, f):
        return jnp.broadcast_to(2.0 * jnp.exp(2.0 * self.log_scale), f[0].shape)

    def cdf(self, y, f):
        return scipy.stats.laplace.cdf(y, f[0], np.exp(self.log_scale))

    def sample(self, rng, f):
        return rng.laplace(f[0], np.exp(self.log_scale))

    def in_support(self, y):
        return np.isfinite(y)

    def from_line(self, t):
        return t

    def moment_fit(self, y, weight=None):
        return np.array([np.median(y)])

    def constant_fit(self, y, weight=None):
        scale = np.mean(np.abs(y - np.median(y)))
        return self._with(jnp.log(jnp.asarray(scale))), self.moment_fit(y)


class Cauchy(AbstractKernel):
    """1 / (1 + sum_p (x_p - z_p)^2 / l_p^2)."""

    name: ClassVar[str] = "cauchy"
    parts: ClassVar[dict[str, str]] = {"lengthscale": "log_lengthscale"}

    log_lengthscale: Float[Array, "*Q P"]

    def __init__(self, lengthscale):
        self.log_lengthscale = jnp.log(jnp.asarray(lengthscale, dtype=float))

    @property
    def lengthscale(self):
        return jnp.exp(self.log_lengthscale)

    def with_lengthscale(self, lengthscale):
        return Cauchy(lengthscale)

    def __call__(self, x, z):
        return 1.0 / (
            1.0 + squared_distance(x / self.lengthscale, z / self.lengthscale)
        )

    def diagonal(self, x):
        return jnp.ones(x.shape[0])


class Damped(LMC):
    """The linear model with an intercept for each function's log scale."""

    name: ClassVar[str] = "damped"
    parts: ClassVar[dict[str, str]] = {**LMC.parts, "gain": "log_gain"}

    log_gain: Float[Array, " J"]

    def __init__(self, kernel, weights, inducing, *, gain=None, rank=1, jitter=1e-8):
        super().__init__(kernel, weights, inducing, rank=rank, jitter=jitter)
        gain = jnp.ones(self.num_functions) if gain is None else gain
        self.log_gain = jnp.log(jnp.asarray(gain, dtype=float))

    def mix(self, sites, mean, var):
        mixed = []
        for span, (m, v) in zip(
            sites.spans, super().mix(sites, mean, var), strict=True
        ):
            gain = jnp.exp(self.log_gain)[np.asarray(span.functions)][:, None]
            mixed.append((gain * m, gain**2 * v))
        return tuple(mixed)

    def covariance(self, x, z):
        gain = jnp.exp(self.log_gain)
        plain = super().covariance(x, z)
        return gain[:, None, None, None] * plain * gain[:, None]

    def parameters(self):
        return super().parameters() | {"gain": jnp.exp(self.log_gain)}

    def with_parameters(self, values):
        return eqx.tree_at(
            lambda prior: prior.log_gain,
            super().with_parameters(values),
            jnp.log(jnp.asarray(values["gain"], dtype=float)),
        )


class Halving(mg.optim.AbstractSchedule):
    name: ClassVar[str] = "halving"

    start: float
    every: int

    def __call__(self, count):
        return self.start * 0.5 ** (count / self.every)


def data(num_rows: int = 90):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"place": np.linspace(0.0, 3.0, num_rows)})
    f = np.sin(3.0 * X["place"])
    Y = pd.DataFrame(
        {
            "wild": 2000.0 + 50.0 * f + rng.laplace(0.0, 5.0, num_rows),
            "calls": rng.poisson(np.exp(1.0 + f)),
        }
    )
    return X, Y.mask(rng.random(Y.shape) < 0.1)


SETTINGS = dict(
    prior="damped",
    kernel="cauchy",
    num_latents=2,
    num_inducing=8,
    batch_size=30,
    max_iter=150,
    random_state=0,
    progress=False,
)


@pytest.fixture(scope="module")
def model() -> mg.MotleyGP:
    return mg.MotleyGP("auto", **SETTINGS).fit(*data())


def test_auto_gives_the_output_to_the_likelihood_that_claims_it(model):
    wild, calls = model.choices_
    assert (wild.likelihood, wild.reason) == ("laplace", "named after its tails")
    assert calls.likelihood == "poisson"
    assert [lik.name for lik in model.model_.likelihoods] == ["laplace", "poisson"]


def test_the_fit_learns_with_all_three(model):
    X, Y = data()
    ours, constant = model.nlpd(X, Y), model.marginal_nlpd(X, Y)
    assert ours["wild"] < constant["wild"] - 0.5
    assert ours["calls"] < constant["calls"] - 0.1
    found = model.parameters()
    assert set(found["scale"]) == {"wild"}
    # The drawn scale is 5.
    assert 2.0 < found["scale"]["wild"] * found["output_scale"][0] < 10.0
    assert found["gain"].shape == (2,)
    assert not np.allclose(found["gain"], 1.0)


def test_its_constant_fit_is_scipys(model):
    y = data()[1]["wild"].dropna().to_numpy()
    seen = model.seen_["wild"]
    expected = scipy.stats.laplace.logpdf(y, *scipy.stats.laplace.fit(y))
    actual = seen.log_prob(y, np.ones(len(y)))
    np.testing.assert_allclose(actual, expected, rtol=1e-10)


def test_save_and_load_give_the_same_answers(model, tmp_path):
    X, Y = data()
    model.predict(X, bayesian=3)
    model.save(tmp_path / "m.motley")
    loaded = mg.load(tmp_path / "m.motley")
    assert loaded.fitted_.scheme == model.fitted_.scheme
    prior = loaded.model_.prior
    assert (type(prior), type(prior.kernel)) == (Damped, Cauchy)
    for bayesian in (False, 3):
        ours = model.predict_dist(X, bayesian=bayesian)
        theirs = loaded.predict_dist(X, bayesian=bayesian)
        for name, p in ours.items():
            np.testing.assert_array_equal(p.mean, theirs[name].mean)
            np.testing.assert_array_equal(
                p.quantile([0.1, 0.9]), theirs[name].quantile([0.1, 0.9])
            )
    for name, draws in model.sample(X, 2, random_state=1).items():
        np.testing.assert_array_equal(draws, loaded.sample(X, 2, random_state=1)[name])
    assert loaded.metrics(X, Y).equals(model.metrics(X, Y))


def test_parameters_go_out_and_in(model):
    X, _ = data()
    copy = mg.MotleyGP("auto", **SETTINGS)
    copy.fitted_ = model.fitted_
    before = model.parameters()
    copy.set_parameters(scale={"wild": 2.0 * before["scale"]["wild"]})
    after = copy.predict_dist(X)["wild"].variance
    widened = 3.0 * 2.0 * (before["scale"]["wild"] * before["output_scale"][0]) ** 2
    np.testing.assert_allclose(
        after - model.predict_dist(X)["wild"].variance, widened, rtol=1e-6
    )
    with pytest.raises(ValueError, match="`scale` must be positive; got -1"):
        copy.set_parameters(scale={"wild": -1.0})


def test_its_parameters_can_be_held_fixed():
    held = mg.MotleyGP("auto", **SETTINGS | {"max_iter": 20}, fixed=["gain", "scale"])
    found = held.fit(*data()).parameters()
    np.testing.assert_array_equal(found["gain"], 1.0)
    constant = np.exp(held.seen_["wild"].likelihood.log_scale)
    X, Y = data()
    known = Y["wild"].notna()
    x = held.fitted_.scaling.inputs(np.asarray(X[known]))
    share = unexplained_share(x, np.asarray(Y["wild"][known]))
    expected = constant * np.sqrt(share) / found["output_scale"][0]
    np.testing.assert_allclose(found["scale"]["wild"], expected, rtol=1e-10)
    with pytest.raises(ValueError, match=r"`fixed` must name parameters among .*gain"):
        mg.MotleyGP("auto", **SETTINGS, fixed=["gian"]).fit(*data())


def test_checkpoints_resume_bit_for_bit(model, tmp_path):
    settings = SETTINGS | {"checkpoint_dir": tmp_path}
    cut = mg.MotleyGP("auto", **settings)

    def interrupt(report):
        if report.iteration >= 100:
            raise KeyboardInterrupt

    cut.fit(*data(), callback=interrupt)
    assert cut.ended_ == "interrupted"
    resumed = mg.MotleyGP("auto", **settings).fit(*data(), resume=True)
    for name, values in model.trace_.items():
        np.testing.assert_array_equal(values, resumed.trace_[name])
    for ours, theirs in zip(
        jax.tree.leaves(model.model_), jax.tree.leaves(resumed.model_), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


def test_the_report_shows_them(model, tmp_path):
    model.report(tmp_path / "r.html", *data())
    page = (tmp_path / "r.html").read_text()
    text = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    for said in ("laplace", "damped", "named after its tails", "wild"):
        assert said in text


def test_a_file_with_an_unknown_class_says_what_to_do(model, tmp_path):
    from motleygp.files import modelfile

    model.save(tmp_path / "m.motley")
    header, arrays = modelfile.read(tmp_path / "m.motley")
    header = json.loads(json.dumps(header).replace('"laplace"', '"lost"'))
    modelfile.write(tmp_path / "m.motley", header, arrays)
    with pytest.raises(
        mg.ModelFileError,
        match="the likelihood 'lost' is not known: import the module that defines it",
    ):
        mg.load(tmp_path / "m.motley")


def test_a_name_belongs_to_one_class():
    with pytest.raises(ValueError, match=r"`name` must be unique .* got 'poisson'"):

        class Poisson(Laplace):
            name: ClassVar[str] = "poisson"


def test_a_convolution_refuses_a_kernel_without_a_closed_form():
    model = mg.MotleyGP("auto", **SETTINGS | {"prior": "convolution"})
    with pytest.raises(ValueError, match="`kernel` must be one of eq; got 'cauchy'"):
        model.fit(*data())


@pytest.mark.slow
def test_schemes_with_a_schedule_of_ones_own_are_data(tmp_path):
    scheme = mg.optim.fng(beta=Halving(0.1, 50))
    assert scheme == mg.optim.fng(beta=Halving(0.1, 50))
    assert scheme != mg.optim.fng(beta=Halving(0.1, 51))
    assert "Halving(start=0.1, every=50)" in str(scheme)
    settings = SETTINGS | {"max_iter": 20, "optimizer": scheme}
    model = mg.MotleyGP("auto", **settings).fit(*data())
    model.save(tmp_path / "m.motley")
    loaded = mg.load(tmp_path / "m.motley")
    assert loaded.optimizer == scheme == loaded.fitted_.scheme
    assert dataclasses.replace(loaded.optimizer, patience=None) != scheme
