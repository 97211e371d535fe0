"""Models in files: what comes back, and what is refused."""

import copy
import subprocess
import sys

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
    model.fit(X, Y).predict(X, bayesian=1)
    model.save(path)
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


def spoil(name: str, value: float):
    """Change one number of an array; the digest is right again."""

    def breakage(header: dict, arrays: dict) -> None:
        arrays[name] = arrays[name].copy()
        arrays[name].flat[-1] = value

    return breakage


def fields(header: dict, *path: str | int) -> dict:
    """The fields of the fitted model, or of a part of it."""
    found = header["fitted"]["fields"]
    for key in path:
        found = found[key]
        if isinstance(found, dict) and "fields" in found:
            found = found["fields"]
    return found


def rename(header: dict, name: str, *path: str | int) -> None:
    """Give a part of the fitted model another class."""
    fields(header, *path[:-1])[path[-1]]["is"][1] = name


BREAKAGES = {
    "kind": lambda header, arrays: header.update(kind="checkpoint"),
    "no fit": lambda header, arrays: header.pop("fitted"),
    "a part for the whole": lambda header, arrays: header.update(
        fitted=header["fitted"]["fields"]["q"]
    ),
    "no outputs": lambda header, arrays: fields(header).pop("outputs"),
    "another field": lambda header, arrays: fields(header).update(shell="ls"),
    "unknown likelihood": lambda header, arrays: rename(
        header, "cauchy", "model", "likelihoods", 0
    ),
    "other likelihood": lambda header, arrays: rename(
        header, "beta", "model", "likelihoods", 1
    ),
    "many nodes": lambda header, arrays: fields(
        header, "model", "likelihoods", 1
    ).update(num_nodes=10**9),
    "unknown form": lambda header, arrays: rename(
        header, "os.system", "model", "prior"
    ),
    "unknown kernel": lambda header, arrays: rename(
        header, "os.system", "model", "prior", "kernel"
    ),
    "rank": lambda header, arrays: fields(header, "model", "prior").update(
        rank=[10**12]
    ),
    "rank of one process": lambda header, arrays: fields(
        header, "model", "prior"
    ).update(rank=[10**12, 1]),
    "no offset": lambda header, arrays: fields(header, "model").update(offset=None),
    "a number beyond all": lambda header, arrays: fields(
        header, "model", "prior", "kernel"
    ).update(log_lengthscale=10**30),
    "no scheme": lambda header, arrays: fields(header).update(scheme=5),
    "a scheme of other parts": lambda header, arrays: fields(header, "scheme").update(
        q=fields(header, "model")["likelihoods"][1]
    ),
    "no jitter": lambda header, arrays: fields(header, "model", "prior").update(
        jitter="much"
    ),
    "unknown optimiser": lambda header, arrays: rename(header, "newton", "scheme", "q"),
    "a step below 0": lambda header, arrays: fields(header, "scheme", "q").update(
        step_size=-0.1
    ),
    "unknown setting": lambda header, arrays: header["settings"]["dict"].update(
        shell="ls"
    ),
    "settings of a wrong type": lambda header, arrays: header.update(settings=[1]),
    "absent array": lambda header, arrays: arrays.pop("fitted.model.prior.weights"),
    "short array": lambda header, arrays: arrays.update(
        {"fitted.q.mean": arrays["fitted.q.mean"][:, :-1]}
    ),
    "other type": lambda header, arrays: arrays.update(
        {"fitted.model.offset": arrays["fitted.model.offset"].astype(np.float32)}
    ),
    "flat inducing points": lambda header, arrays: arrays.update(
        {"fitted.model.prior.inducing": arrays["fitted.model.prior.inducing"].ravel()}
    ),
    "scales": lambda header, arrays: arrays.update(
        {"fitted.scaling.y_scale": np.ones(7)}
    ),
    "a short draw of theta": lambda header, arrays: arrays.update(
        {"fitted.draws.0.0.offset": np.ones(7)}
    ),
    "a draw of half a model": lambda header, arrays: fields(header).update(
        draws=[fields(header)["draws"][0][:1]]
    ),
    "a draw of other outputs": lambda header, arrays: rename(
        header, "exponential", "draws", 0, 0, "likelihoods", 2
    ),
    "features": lambda header, arrays: fields(header).update(inputs=["one"]),
    "constants": lambda header, arrays: arrays.update({"fitted.seen.1.f": np.ones(2)}),
    "NaN in theta": spoil("fitted.model.prior.weights", np.nan),
    "an infinite length-scale": spoil(
        "fitted.model.prior.kernel.log_lengthscale", np.inf
    ),
    "NaN in q(u)": spoil("fitted.q.mean", np.nan),
    "NaN in a covariance": spoil("fitted.q.half", np.nan),
    "an infinite precision": spoil("fitted.q.precision", np.inf),
    "an infinite shift": spoil("fitted.scaling.x_shift", -np.inf),
    "a negative scale": spoil("fitted.scaling.y_scale", -1.0),
    "no scale": spoil("fitted.scaling.x_scale", 0.0),
    "NaN in a draw": spoil("fitted.draws.0.0.offset", np.nan),
    "an infinite draw of q(u)": spoil("fitted.draws.0.1.mean", np.inf),
    "an endless range": spoil("fitted.input_range", np.inf),
    "a negative jitter": lambda header, arrays: fields(header, "model", "prior").update(
        jitter=-1e-3
    ),
    "an infinite jitter": lambda header, arrays: fields(
        header, "model", "prior"
    ).update(jitter={"float": "inf"}),
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


LOAD = """
import sys
import motleygp as mg
for path in sys.argv[1:]:
    try:
        mg.load(path)
    except mg.ModelFileError:
        continue
    except Exception as error:
        print(path, type(error).__name__)
    else:
        print(path, "was loaded")
"""


@pytest.mark.parametrize("saved", ["lmc"], indirect=True)
def test_it_is_refused_without_the_type_checks_of_the_tests_too(saved, tmp_path):
    paths = [tmp_path / f"{name}.motley" for name in BREAKAGES]
    for path, breakage in zip(paths, BREAKAGES.values(), strict=True):
        header, arrays = modelfile.read(saved[1])
        breakage(header, arrays)
        modelfile.write(path, header, arrays)
    command = [sys.executable, "-c", LOAD, *paths]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == []


@pytest.mark.parametrize("saved", ["lmc"], indirect=True)
def test_fixed_noise_keeps_its_unit(saved):
    # The estimator's own argument is in the user's units, the model's is not.
    _, path = saved
    again = mg.load(path)
    np.testing.assert_allclose(again.outputs["price"].noise, 2.0)
    assert again.outputs["price"].fixed


def test_schemes_are_among_the_settings_and_the_folder_is_not(tmp_path):
    X, Y = make_frames()
    model = mg.MotleyGP(
        {"flat": "bernoulli"},
        optimizer=mg.optim.hybrid(alpha=0.02),
        checkpoint_dir=tmp_path / "run",
        random_state=0,
        **SETTINGS,
    )
    model.fit(X, Y[["flat"]]).save(tmp_path / "m.motley")
    again = mg.load(tmp_path / "m.motley")
    assert again.optimizer == model.optimizer == again.fitted_.scheme
    assert again.optimizer != mg.optim.hybrid()
    # The folder belongs to that fit alone, and the next one need not resume it.
    assert again.checkpoint_dir is None
    assert str(tmp_path) not in (tmp_path / "m.motley").read_text("latin-1")


def test_a_class_without_a_name_of_its_own_cannot_be_saved(tmp_path):
    # Its name is that of its parent, as which a file would bring it back.
    class Mine(mg.likelihoods.Bernoulli):
        pass

    X, Y = make_frames()
    model = mg.MotleyGP({"flat": Mine()}, random_state=0, **SETTINGS)
    model.fit(X, Y[["flat"]])
    with pytest.raises(ValueError, match="Mine"):
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


def test_damaged_models_are_refused_or_the_same(saved, rng):
    damaged(saved[1], rng, 70)
    assert 20 < forged(saved[1], rng, 100) < 100


@pytest.mark.slow
def test_ten_thousand_damaged_models(saved, rng):
    damaged(saved[1], rng, 10_000)
    forged(saved[1], rng, 2_000)
