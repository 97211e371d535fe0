"""The functional core: pure functions on plain data, on which the estimator is built.

A `Model` joins a prior and likelihoods; `make_dataset` gathers the data; `elbo` is the
bound. `init` makes the state of a training scheme and `step` advances it; `run` repeats
the step, and `solution` reads the trained model from the state. `predict` gives the
predictive distributions of the outputs.
"""

from motleygp.inference import (
    Dataset as Dataset,
    Model as Model,
    Posterior as Posterior,
    elbo as elbo,
    from_prior as from_prior,
    full_elbo as full_elbo,
    gradients as gradients,
    make_dataset as make_dataset,
    trainable as trainable,
    unwhiten as unwhiten,
    whiten as whiten,
)
from motleygp.prediction import predict as predict
from motleygp.training import (
    Run as Run,
    Solution as Solution,
    StepInfo as StepInfo,
    TrainState as TrainState,
    init as init,
    initial_model as initial_model,
    run as run,
    solution as solution,
    start_precision as start_precision,
    step as step,
)
