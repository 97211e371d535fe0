"""The fitted model, which predictions, files, reports and updates use."""

from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import numpy as np

from motleygp.files.trees import check_finite
from motleygp.inference import Model, Posterior, Scaling
from motleygp.inference.parameters import theta_arrays, to_arrays
from motleygp.named import Named
from motleygp.optim import Scheme
from motleygp.prediction.seen import Seen
from motleygp.tables.infer import Choice


class Fitted(Named):
    """All of a fit except its data.

    - `model`, `q`: the model at theta = mu, and its whitened q(u).
    - `scheme`: the training scheme.
    - `scaling`: the units of the inputs and outputs.
    - `outputs`, `inputs`: their names. Inputs without names are "x0", "x1", ..., and
      `inputs_named` is then false.
    - `dates`: for each input, whether it was given as dates.
    - `classes`: for each output, the labels of 0 and 1, or `None`.
    - `seen`: for each output, its numbers of rows and values, and its constant fit.
    - `input_range`: the smallest and the largest value of each input.
    - `choices`: the likelihoods that were inferred, with the reasons.
    - `trace`, `ended`: the trace of the best run, and the reason for its end.
    - `starts`: the "score", "trace", "ended" and "error" of every start.
    - `draws`: models at draws of theta from its posterior, each with its own whitened
      q(u); none until predictions average over them.
    """

    kind: ClassVar[str] = "fitted"
    name: ClassVar[str] = "fitted"

    model: Model
    q: Posterior
    scheme: Scheme
    scaling: Scaling
    outputs: tuple[str, ...]
    inputs: tuple[str, ...]
    inputs_named: bool
    dates: tuple[bool, ...]
    classes: tuple[tuple[Any, Any] | None, ...]
    seen: tuple[Seen, ...]
    input_range: np.ndarray
    choices: tuple[Choice, ...]
    trace: Mapping[str, np.ndarray]
    ended: str
    starts: tuple[Mapping[str, Any], ...]
    draws: tuple[tuple[Model, Posterior], ...] = ()

    def __check_init__(self) -> None:
        """Raise a `ValueError` if the shapes of the parts do not match, or for numbers
        with which nothing can be predicted."""
        groups, size, num_inputs = self.model.prior.inducing.shape
        if self.model.joint_q:
            groups, size = 1, groups * size
        num_outputs = len(self.model.likelihoods)
        expected = {
            "q.mean": (self.q.mean, (groups, size)),
            "q.precision": (self.q.precision, (groups, size, size)),
            "q.half": (self.q.half, (groups, size, size)),
            "scaling.x_shift": (self.scaling.x_shift, (num_inputs,)),
            "scaling.x_scale": (self.scaling.x_scale, (num_inputs,)),
            "scaling.y_shift": (self.scaling.y_shift, (num_outputs,)),
            "scaling.y_scale": (self.scaling.y_scale, (num_outputs,)),
            "input_range": (self.input_range, (2, num_inputs)),
        }
        for name, (array, shape) in expected.items():
            if array.shape != shape:
                raise ValueError(
                    f"`{name}` must have shape {shape}; got {array.shape}."
                )
        counts = [len(part) for part in (self.outputs, self.classes, self.seen)]
        named = [len(names) for names in (self.inputs, self.dates)]
        if counts != [num_outputs] * 3 or named != [num_inputs] * 2:
            raise ValueError(
                f"`outputs`, `classes` and `seen` must have {num_outputs} entries, and "
                f"`inputs` and `dates` {num_inputs}; got {counts} and {named}."
            )
        self._check_draws()
        jitter = self.model.prior.jitter
        if not (np.isfinite(jitter) and jitter >= 0):
            raise ValueError(f"`jitter` must be finite and at least 0; got {jitter}.")
        for place in ("model", "q", "draws", "input_range"):
            check_finite(getattr(self, place), place)

    def _check_draws(self) -> None:
        def form(model: Model, q: Posterior) -> tuple[Any, list[tuple[int, ...]]]:
            leaves, tree = jax.tree.flatten((model, q))
            return tree, [np.shape(leaf) for leaf in leaves]

        own = form(self.model, self.q)
        if not all(form(*draw) == own for draw in self.draws):
            raise ValueError("`draws` must have the form of `model` and `q`.")

    @property
    def seen_by_output(self) -> dict[str, Seen]:
        """`seen` by the name of the output."""
        return dict(zip(self.outputs, self.seen, strict=True))

    @property
    def classes_by_output(self) -> dict[str, tuple[Any, Any] | None]:
        """`classes` by the name of the output."""
        return dict(zip(self.outputs, self.classes, strict=True))

    def theta(self) -> dict[str, Any]:
        """The parameters by name, without q(u) and the units."""
        return theta_arrays(self.model, self.scaling, self.outputs)

    def parameters(self) -> dict[str, Any]:
        """All parameters by name: see `inference.parameters.to_arrays`."""
        return to_arrays(self.model, self.q, self.scaling, self.outputs)
