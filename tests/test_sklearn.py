"""scikit-learn's conventions."""

import functools as ft
import json
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import motleygp as mg

pytestmark = pytest.mark.usefixtures("quick_compilation")

SETTINGS = dict(num_inducing=5, max_iter=3, random_state=0, progress=False)


def make_data() -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.random((30, 2)), columns=["lat", "lon"])
    Y = pd.DataFrame({"a": rng.normal(size=30), "b": rng.normal(size=30)})
    Y.loc[3, "a"] = np.nan
    return X, Y


def test_settings_are_only_stored():
    odd = object()
    model = mg.MotleyGP(optimizer=odd, outputs=("x",), fixed=["noise"], start={"a": 1})
    assert model.get_params()["optimizer"] is odd and model.outputs == ("x",)
    copy = clone(mg.MotleyGP(num_latents=3, fixed=("noise",)))
    assert (copy.num_latents, copy.fixed) == (3, ("noise",))
    assert copy.set_params(num_latents=2).num_latents == 2
    with pytest.raises(ValueError, match="Invalid parameter 'speed'"):
        copy.set_params(speed=1)
    assert "num_latents=2" in repr(copy)


@pytest.mark.package
def test_pipelines_cross_validation_and_grids():
    X, Y = make_data()
    model = mg.MotleyGP(["gaussian", "gaussian"], **SETTINGS)
    pipe = make_pipeline(StandardScaler(), model).fit(X, Y)
    assert pipe.predict(X).shape == (30, 2) and np.isfinite(pipe.score(X, Y))
    assert np.isfinite(cross_val_score(model, X, Y, cv=2)).all()
    grid = GridSearchCV(model, {"max_iter": [1, 3]}, cv=2).fit(X, Y)
    scores, best = grid.cv_results_["mean_test_score"], grid.best_estimator_
    assert np.isfinite(scores).all() and scores[0] != scores[1]
    assert len(best.trace_["nelbo"]) == best.max_iter == [1, 3][np.argmax(scores)]
    assert list(best.feature_names_in_) == ["lat", "lon"] and best.n_features_in_ == 2


def test_an_unfitted_estimator_says_so():
    X, Y = make_data()
    model = mg.MotleyGP(**SETTINGS)
    calls = [
        ft.partial(model.predict, X),
        ft.partial(model.predict_dist, X),
        ft.partial(model.predict_proba, X),
        ft.partial(model.nlpd, X, Y),
        ft.partial(model.nlpd, X, Y, standardized=True),
        ft.partial(model.metrics, X, Y),
        ft.partial(model.elbo, X, Y),
        ft.partial(model.latent, X),
        ft.partial(model.impute, X, Y),
        ft.partial(model.sample, X),
        ft.partial(model.sample_latent, X),
        ft.partial(model.save, "m.motley"),
        model.parameters,
        model.summary,
        model.correlation,
        model.weights,
        model.lengthscales,
        model.relevance,
        ft.partial(model.independent().predict, X),
        ft.partial(model.independent().nlpd, X, Y),
    ]
    for call in calls:
        with pytest.raises(NotFittedError):
            call()


@pytest.mark.slow
def test_a_fitted_estimator_can_be_sent_to_another_process():
    X, Y = make_data()
    model = mg.MotleyGP(["gaussian", "gaussian"], **SETTINGS).fit(X, Y)
    again = pickle.loads(pickle.dumps(model))
    pd.testing.assert_frame_equal(again.predict(X), model.predict(X))


# scikit-learn's own checks. Those that do not apply, and why:
_KEYWORD = "its outputs are `Y`, not `y`: there are several"
_DICT = "`predict_proba` gives one array per binary output, in a dict"
NOT_APPLICABLE = {
    "check_n_features_in_after_fitting": _KEYWORD,
    "check_sample_weight_equivalence_on_dense_data": _KEYWORD,
    "check_estimators_pickle": _DICT,
    "check_fit_idempotent": _DICT,
    "check_methods_sample_order_invariance": _DICT,
    "check_methods_subset_invariance": _DICT,
    "check_dtype_object": "what is no number is a ValueError, not a TypeError",
}


# In a process of its own: the type checks of this one know better than to take
# arguments of any type.
SCRIPT = f"""
import json, warnings
import jax
from sklearn.utils.estimator_checks import check_estimator
import motleygp as mg

jax.config.update("jax_disable_most_optimizations", True)
warnings.simplefilter("ignore")
model = mg.MotleyGP(**{ {**SETTINGS, "num_inducing": 3, "max_iter": 2}!r})
results = check_estimator(model, on_fail=None, on_skip=None)
print(json.dumps([[r["check_name"], r["status"]] for r in results]))
"""


@pytest.mark.package
def test_scikit_learns_own_checks():
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    )
    results = json.loads(run.stdout.splitlines()[-1])
    assert len(results) > 40
    failed = {name for name, status in results if status == "failed"}
    assert failed == set(NOT_APPLICABLE)
