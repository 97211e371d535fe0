"""Models in files: what comes back, and what is refused."""

import copy

import numpy as np
import pandas as pd
import pytest

import motleygp as mg
from motleygp.files import modelfile
from test_modelfile import mutations

pytestmark = pytest.mark.usefixtures("quick_compilation")

SETTINGS = {"num_inducing": 6, "max_iter": 10, "batch_size": 16, "progress": False}
OUTPUTS = {
    "price": mg.likelihoods.Gaussian(2.0, fixed=True),
    "flat": "bernoulli",
    "calls": "poisson",
}


def make_frames() -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.random((40, 2)), columns=["lat", "lon"])
    Y = pd.DataFrame(
        {
            "price": 100.0 + 10.0 * rng.normal(size=40),
            "flat": np.where(rng.random(40) < 0.5, "flat", "house"),
            "calls": rng.poisson(3.0, size=40),
        }
    )
    Y.loc[3:5, "flat"] = None
    return X, Y


PRIORS = {
    "lmc": {"prior": "lmc", "rank": (2, 1), "num_latents": 2, "restarts": 2},
    "function": {"prior": "convolution"},
    "latent": {"prior": "convolution", "inducing": "latent"},
}


@pytest.fixture(
    scope="module",
    params=[
        "lmc",
        "latent",
        pytest.param("function", marks=pytest.mark.slow),
    ],
)
def saved(request, tmp_path_factory):
    X, Y = make_frames()
    model = mg.MotleyGP(OUTPUTS, random_state=0, **SETTINGS, **PRIORS[request.param])
    path = tmp_path_factory.mktemp("models") / "m.motley"
    model.fit(X, Y).save(path)
    return model, path


def test_the_loaded_model_is_the_same(saved):
    model, path = saved
    X, Y = make_frames()
    again = mg.load(path)
    pd.testing.assert_frame_equal(again.predict(X), model.predict(X))
    assert again.nlpd(X, Y) == model.nlpd(X, Y)
    assert again.elbo(X, Y) == model.elbo(X, Y)
    for name, value in model.parameters().items():
        np.testing.assert_array_equal(again.parameters()[name], value)
    assert again.classes_ == model.classes_ and again.ended_ == model.ended_
    assert list(again.feature_names_in_) == ["lat", "lon"]
    for name, column in model.trace_.items():
        np.testing.assert_array_equal(again.trace_[name], column)
    assert len(again.restarts_) == len(model.restarts_)
    for one, other in zip(again.restarts_, model.restarts_, strict=True):
        assert one["score"] == other["score"] and set(one) == set(other)
    settings, expected = again.get_params(), model.get_params()
    del settings["outputs"], expected["outputs"]
    assert settings == expected
    names = [likelihood.name for likelihood in again.outputs.values()]
    assert names == ["gaussian", "bernoulli", "poisson"]


def test_it_can_be_saved_again(saved, tmp_path):
    _, path = saved
    mg.load(path).save(tmp_path / "again.motley")
    assert (tmp_path / "again.motley").read_bytes() == path.read_bytes()


BREAKAGES = {
    "kind": lambda header, arrays: header.update(kind="checkpoint"),
    "no outputs": lambda header, arrays: header.pop("outputs"),
    "unknown likelihood": lambda header, arrays: header["outputs"][0][
        "likelihood"
    ].update(name="cauchy"),
    "other likelihood": lambda header, arrays: header["outputs"][1][
        "likelihood"
    ].update(name="beta"),
    "many nodes": lambda header, arrays: header["outputs"][1]["likelihood"].update(
        num_nodes=10**9
    ),
    "unknown form": lambda header, arrays: header["prior"].update(form="os.system"),
    "rank": lambda header, arrays: header["prior"].update(rank=[10**12]),
    "unknown setting": lambda header, arrays: header["settings"].update(shell="ls"),
    "settings of a wrong type": lambda header, arrays: header.update(settings=[1]),
    "absent array": lambda header, arrays: arrays.pop("model.prior.weights"),
    "short array": lambda header, arrays: arrays.update(
        {"q.mean": arrays["q.mean"][:, :-1]}
    ),
    "other type": lambda header, arrays: arrays.update(
        {"model.offset": arrays["model.offset"].astype(np.float32)}
    ),
    "flat inducing points": lambda header, arrays: arrays.update(
        {"model.prior.inducing": arrays["model.prior.inducing"].ravel()}
    ),
    "scales": lambda header, arrays: arrays.update({"scaling.y_scale": np.ones(7)}),
    "features": lambda header, arrays: header.update(features=["one"]),
}


@pytest.mark.parametrize("saved", ["lmc"], indirect=True)
@pytest.mark.parametrize("name", BREAKAGES)
def test_what_does_not_fit_is_refused(saved, tmp_path, name):
    header, arrays = modelfile.read(saved[1])
    BREAKAGES[name](header, arrays)
    path = tmp_path / "bad.motley"
    modelfile.write(path, header, arrays)
    with pytest.raises(mg.ModelFileError, match="is not a model") as caught:
        mg.load(path)
    assert "\n" not in str(caught.value) and "bad.motley" in str(caught.value)


@pytest.mark.parametrize("saved", ["lmc"], indirect=True)
def test_fixed_noise_keeps_its_unit(saved):
    # The estimator's own argument is in the user's units, the model's is not.
    _, path = saved
    again = mg.load(path)
    np.testing.assert_allclose(again.outputs["price"].noise, 2.0)
    assert again.outputs["price"].fixed


def test_paths_and_schemes_among_the_settings(tmp_path):
    X, Y = make_frames()
    model = mg.MotleyGP(
        {"flat": "bernoulli"},
        optimizer=mg.optim.hybrid(),
        checkpoint_dir=tmp_path / "run",
        random_state=0,
        **SETTINGS,
    )
    model.fit(X, Y[["flat"]]).save(tmp_path / "m.motley")
    with pytest.warns(UserWarning, match="`optimizer` was an object"):
        again = mg.load(tmp_path / "m.motley")
    assert again.optimizer == "fng"
    assert again.checkpoint_dir == str(tmp_path / "run")


def test_a_likelihood_of_ones_own_cannot_be_saved(tmp_path):
    class Mine(mg.likelihoods.Bernoulli):
        pass

    X, Y = make_frames()
    model = mg.MotleyGP({"flat": Mine()}, random_state=0, **SETTINGS)
    model.fit(X, Y[["flat"]])
    with pytest.raises(
        ValueError, match="'flat' must have a likelihood of the library"
    ):
        model.save(tmp_path / "m.motley")
    assert not list(tmp_path.iterdir())


def test_an_unfitted_model_cannot_be_saved(tmp_path):
    with pytest.raises(Exception, match="not fitted yet"):
        mg.MotleyGP(OUTPUTS).save(tmp_path / "m.motley")


# Damage. What `modelfile` reads is tested there; here, what `load` makes of it.


def damaged(path, rng: np.random.Generator, count: int) -> None:
    """Every changed file is refused; those that a change left alone load the same."""
    X, _ = make_frames()
    expected, data = mg.load(path).predict(X), path.read_bytes()
    other = path.with_name("damaged.motley")
    for mutant in mutations(data, rng, count):
        other.write_bytes(mutant)
        if mutant == data:
            pd.testing.assert_frame_equal(mg.load(other).predict(X), expected)
        else:
            with pytest.raises(mg.ModelFileError):
                mg.load(other)


def places(value, path=()):
    """Where every value stands in a header."""
    yield path
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, child in pairs:
            yield from places(child, (*path, key))


ODD = [None, True, -1, 0, 1e300, "", "x", [], {}, [[]], [1] * 100, {"a": 1}, "gaussian"]


def forged(path, rng: np.random.Generator, count: int) -> int:
    """Whole files with one value of the header changed: an error, or an estimator."""
    header, arrays = modelfile.read(path)
    every = [place for place in places(header) if place]
    other = path.with_name("forged.motley")
    refused = 0
    for _ in range(count):
        changed = copy.deepcopy(header)
        place = every[rng.integers(len(every))]
        inner = changed
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = ODD[rng.integers(len(ODD))]
        modelfile.write(other, changed, arrays)
        try:
            assert isinstance(mg.load(other), mg.MotleyGP)
        except mg.ModelFileError:
            refused += 1
    return refused


@pytest.mark.filterwarnings("ignore:the model's `optimizer` was an object")
def test_damaged_models_are_refused_or_the_same(saved, rng):
    damaged(saved[1], rng, 70)
    assert 20 < forged(saved[1], rng, 100) < 100


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the model's `optimizer` was an object")
def test_ten_thousand_damaged_models(saved, rng):
    damaged(saved[1], rng, 10_000)
    forged(saved[1], rng, 2_000)
