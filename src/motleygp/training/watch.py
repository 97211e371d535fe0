"""Reports of a run to the progress bar, the log and the user's callback."""

import contextlib
import logging
from collections.abc import Callable, Iterator

import numpy as np

from motleygp.progress import training_bar
from motleygp.training.journal import Callback, Report

_log = logging.getLogger("motleygp.training")


@contextlib.contextmanager
def watch(
    num_steps: int,
    callback: Callback | None,
    *,
    show: bool,
    label: str,
    plan: str = "",
) -> Iterator[Callable[[Report], bool]]:
    """A callback for `run` that shows each report, logs it and passes it on."""
    with training_bar(num_steps, show=show, label=label, plan=plan) as update:
        refused = cut = 0

        def tell(report: Report) -> bool:
            nonlocal refused, cut
            info = report.info
            refused += int(np.sum((info.q.refused > 0) | info.refused))
            cut += int(np.sum(info.q.shrinks > 0))
            nelbo = float(np.mean(info.nelbo))
            said = f"-ELBO {nelbo:.5g}"
            if report.held_out is not None:
                said += f"  held-out NLPD {report.held_out:.4f}"
            said += f"  refused {refused}  cut {cut}"
            update(report.iteration, report.horizon, said)
            _log.debug(
                "iteration %d of %d: -ELBO %.6g",
                report.iteration,
                report.horizon,
                nelbo,
            )
            return bool(callback(report)) if callback is not None else False

        yield tell
