"""The model and its bound: data, prior and likelihoods joined under one q(u)."""

from motleygp.inference.data import (
    Block as Block,
    Dataset as Dataset,
    make_dataset as make_dataset,
)
from motleygp.inference.derivatives import gradients as gradients
from motleygp.inference.holding import hold_out as hold_out
from motleygp.inference.model import (
    Model as Model,
    all_fixed as all_fixed,
    parameter_names as parameter_names,
    trainable as trainable,
    with_fixed as with_fixed,
)
from motleygp.inference.objective import (
    elbo as elbo,
    full_elbo as full_elbo,
    function_moments as function_moments,
    held_out_nlpd as held_out_nlpd,
)
from motleygp.inference.observations import (
    Observations as Observations,
    observe as observe,
)
from motleygp.inference.posterior import (
    NaturalTerms as NaturalTerms,
    Posterior as Posterior,
    from_prior as from_prior,
    unwhiten as unwhiten,
    whiten as whiten,
)
from motleygp.inference.scaling import (
    Scaling as Scaling,
    no_scaling as no_scaling,
    standardising as standardising,
)
