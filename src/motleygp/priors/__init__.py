"""Gaussian-process priors over the parameter functions."""

from collections.abc import Mapping

from motleygp.named import known
from motleygp.priors._base import (
    DEFAULT_JITTER as DEFAULT_JITTER,
    AbstractPrior as AbstractPrior,
    Covariances as Covariances,
    Drawn as Drawn,
    sample as sample,
)
from motleygp.priors._convolution import (
    AbstractConvolution as AbstractConvolution,
    Convolution as Convolution,
)
from motleygp.priors._latent_convolution import LatentConvolution as LatentConvolution
from motleygp.priors._lmc import LMC as LMC
from motleygp.priors._sites import (
    Blocks as Blocks,
    Sites as Sites,
    apart as apart,
    everywhere as everywhere,
    join as join,
    pairs_within as pairs_within,
    pick as pick,
)

BY_NAME: Mapping[str, type[AbstractPrior]] = known("prior")


def families() -> dict[str, list[type[AbstractPrior]]]:
    """The classes behind each value of the estimator's argument `prior`."""
    found: dict[str, list[type[AbstractPrior]]] = {}
    for name, cls in BY_NAME.items():
        found.setdefault(getattr(cls, "family", name), []).append(cls)
    return found


def get(family: str, inducing: str = "auto") -> type[AbstractPrior]:
    """The class behind the arguments `prior` and `inducing` of the estimator."""
    every = families()
    if not isinstance(family, str) or family not in every:
        raise ValueError(f"`prior` must be one of {', '.join(every)}; got {family!r}.")
    ours = every[family]
    if inducing == "auto":
        return ours[0]
    found = [cls for cls in ours if cls.inducing_of == inducing]
    if not found:
        allowed = ["auto", *(cls.inducing_of for cls in ours if cls.inducing_of)]
        raise ValueError(
            f"`inducing` must be one of {', '.join(allowed)} with prior {family!r}; "
            f"got {inducing!r}."
        )
    return found[0]
