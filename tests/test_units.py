"""The user's units: scaling or shifting data only scales or shifts predictions."""

import jax
import numpy as np
import pytest

import motleygp as mg
from motleygp.inference import scaling

pytestmark = pytest.mark.usefixtures("quick_compilation")

SETTINGS = dict(num_inducing=10, max_iter=200, random_state=0, progress=False)
OUTPUTS = {"level": "gaussian", "wide": "hetgaussian", "open": "bernoulli"}
NEW = np.linspace(0.0, 1.0, 20)[:, None] * [1.0, 0.5]


def make_data() -> tuple[np.ndarray, dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    x = rng.random((80, 2))
    f = np.sin(6.0 * x[:, 0]) + x[:, 1]
    return x, {
        "level": f + 0.1 * rng.normal(size=80),
        "wide": -f + np.exp(x[:, 1] - 2.0) * rng.normal(size=80),
        "open": (f + 0.5 * rng.normal(size=80) > 0.5).astype(float),
    }


def predicted(
    x_shift=0.0, x_scale=1.0, y_shift=0.0, y_scale=1.0
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Means and standard deviations, brought back from the units of the data."""
    x, Y = make_data()
    real = {"level", "wide"}
    Y = {n: y_shift + y_scale * y if n in real else y for n, y in Y.items()}
    model = mg.MotleyGP(OUTPUTS, **SETTINGS).fit(x_shift + x_scale * x, Y)
    found = {}
    for name, p in model.predict_dist(x_shift + x_scale * NEW).items():
        shift, scale = (y_shift, y_scale) if name in real else (0.0, 1.0)
        found[name] = ((p.mean - shift) / scale, p.std / scale)
    return found


@pytest.fixture(scope="module")
def plain():
    return predicted()


@pytest.mark.parametrize("power", [20, -20])
@pytest.mark.parametrize("what", ["x_scale", "y_scale"])
def test_powers_of_two_change_nothing_at_all(plain, what, power):
    new = predicted(**{what: 2.0**power})
    for name, (mean, std) in plain.items():
        np.testing.assert_array_equal(new[name][0], mean)
        np.testing.assert_array_equal(new[name][1], std)


@pytest.mark.parametrize(
    "units",
    [
        {"x_scale": 1e6},
        {"x_scale": 1e-6},
        {"x_shift": 1e6},
        {"y_scale": 1e6},
        {"y_scale": 1e-6},
        {"y_shift": 1e6},
    ],
    ids=lambda units: "-".join(f"{k}={v:g}" for k, v in units.items()),
)
def test_other_units_change_little_of_a_standard_deviation(plain, units):
    new = predicted(**units)
    for name, (mean, std) in plain.items():
        assert np.max(np.abs(new[name][0] - mean) / std) < 1e-2
        assert np.max(np.abs(new[name][1] - std) / std) < 1e-2


@pytest.mark.parametrize("weighted", [True, False])
def test_units_found_in_parts_are_those_of_all_rows(weighted, monkeypatch):
    rng = np.random.default_rng(1)
    x, y = rng.normal(3.0, 2.0, size=(50, 3)), rng.normal(size=50)
    y[rng.permutation(50)[:20]] = np.nan
    w = rng.integers(1, 4, size=50).astype(float) if weighted else np.ones(50)
    given = {"x_weights": [w], "y_weights": [w]} if weighted else {}
    monkeypatch.setattr(scaling, "_ROWS", 7)
    found = scaling.standardising([x], [y], [mg.likelihoods.Gaussian()], **given)
    # A value of weight w counts as w values.
    rows = np.repeat(np.arange(50), w.astype(int))
    for array, shift, scale in (
        (x[rows], found.x_shift, found.x_scale),
        (y[rows], found.y_shift[0], found.y_scale[0]),
    ):
        np.testing.assert_allclose(shift, np.nanmean(array, axis=0), rtol=1e-12)
        np.testing.assert_allclose(scale, np.nanstd(array, axis=0), rtol=1e-12)


def test_scaled_inputs_are_not_copied_to_the_device():
    x = scaling.no_scaling(3, 1).inputs(np.ones((1000, 3)))
    on_device = jax.device_put(x)
    if jax.default_backend() == "cpu":
        assert on_device.unsafe_buffer_pointer() == x.ctypes.data
    np.testing.assert_array_equal(on_device, x)
