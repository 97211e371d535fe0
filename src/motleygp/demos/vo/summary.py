"""Tables of the runs' ends."""

import numpy as np
from rich.table import Table

from motleygp.demos.vo.example import MINIMA, Setting
from motleygp.demos.vo.runs import EXACT_STEPS, Course, ends, shares


def labels(setting: Setting) -> tuple[str, str, str]:
    """A setting in words: its KL term, its curvature and its two steps."""
    curvature = "E[g'^2]" if setting.curvature == "gauss-newton" else "E[g'']"
    kl = "no" if setting.prior_precision is None else "yes"
    return kl, curvature, f"{setting.step:g}, {setting.precision_step:g}"


def sampled_table(runs: dict[Setting, Course]) -> Table:
    """Count the seeds that end near each minimum of g."""
    some = next(iter(runs.values()))
    table = Table(title=f"ends of {some.mean.shape[0]} seeds, by the minimum of g")
    columns = ("KL", "curvature", "steps", *(f"{m:.1f}" for m in MINIMA))
    _add_columns(table, *columns, "other", "refused")
    for setting, course in runs.items():
        refused = np.asarray(course.refused)[:, -1].mean()
        counts = (str(int(c)) for c in shares(ends(course)))
        table.add_row(*labels(setting), *counts, f"{refused:.1f}")
    table.caption = "refused: steps per seed that would have made sigma^-2 negative"
    return table


def exact_table(runs: dict[Setting, Course]) -> Table:
    """Show the runs with exact expectations: mu on the way, and sigma^2 at the end."""
    table = Table(title="exact expectations: mu by iteration")
    _add_columns(table, "KL", "curvature", "steps", *(str(n) for n in EXACT_STEPS))
    _add_columns(table, f"sigma^2 after {EXACT_STEPS[-1]}")
    for setting, course in runs.items():
        means = (_three_digits(float(course.mean[n])) for n in EXACT_STEPS)
        last = _three_digits(float(course.std[-1]) ** 2)
        table.add_row(*labels(setting), *means, last)
    return table


def _add_columns(table: Table, *names: str) -> None:
    for name in names:
        table.add_column(name, justify="right")


def _three_digits(value: float) -> str:
    return f"{round(value, 3) + 0.0:.3f}"  # adding 0.0 turns -0.0 into 0.0
