"""The plan of a fit: the sizes that are not given, from the rows and the effort."""

import numpy as np
import pytest

import motleygp as mg
from motleygp.estimator import plan
from motleygp.inference import make_dataset
from motleygp.likelihoods import Gaussian, HetGaussian
from motleygp.priors import LMC, Convolution

GIVEN = {
    **dict(prior="lmc", inducing="auto", effort="standard", num_latents=None, rank=1),
    **dict(num_inducing=None, max_iter=None, batch_size=None),
}


def plan_of(num_rows: int, **changes: object) -> tuple[int, int, int]:
    """M, the rows of a minibatch and the number of iterations."""
    x = np.linspace(0.0, 1.0, num_rows)[:, None]
    likelihoods = (HetGaussian(), Gaussian())
    data = make_dataset([x, x], [x[:, 0], x[:, 0] ** 2], likelihoods)
    found = plan.planned(GIVEN | changes, likelihoods, data)
    return found["num_inducing"], found["batch_size"], found["max_iter"]


@pytest.mark.parametrize(
    ("effort", "few", "many"),
    [
        ("quick", (32, 400, 1000), (80, 256, 750)),
        ("standard", (80, 400, 2000), (200, 512, 1500)),
        ("thorough", (160, 400, 4000), (400, 1024, 2100)),
    ],
)
def test_the_sizes_follow_the_rows_and_the_effort(effort, few, many):
    assert plan_of(400, effort=effort) == few
    assert plan_of(5000, effort=effort) == many


def test_sizes_that_are_given_stay():
    assert plan_of(5000, num_inducing=7) == (7, 512, 1500)
    assert plan_of(5000, batch_size=50, max_iter=3, effort="thorough") == (400, 50, 3)


def test_one_output_takes_fewer_iterations_with_minibatches():
    x = np.linspace(0.0, 1.0, 5000)[:, None]
    likelihoods = (HetGaussian(),)
    data = make_dataset([x], [x[:, 0]], likelihoods)
    assert plan.planned(GIVEN, likelihoods, data)["max_iter"] == 1000


def test_many_groups_have_fewer_inducing_points():
    assert LMC.usual_num_inducing(5, 400) == 80
    assert LMC.usual_num_inducing(40, 400) == 40
    assert LMC.usual_num_inducing(40, 5000) == 80
    assert LMC.usual_num_inducing(1000, 5000) == 20
    # A function has no other inducing points than its own.
    assert Convolution.usual_num_inducing(1000, 5000) == 80


def test_an_unknown_effort_is_refused():
    x = np.linspace(0.0, 1.0, 20)[:, None]
    with pytest.raises(
        ValueError, match="`effort` must be one of quick, standard, tho"
    ):
        mg.MotleyGP(effort="much", progress=False).fit(x, x)


def test_the_plan_is_told_in_words():
    assert plan.in_words({"num_inducing": 8, "batch_size": 9}) == "M = 8, 9 rows a step"
