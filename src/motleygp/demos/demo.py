"""The demonstration: a fit to one day of synthetic weather, its scores and report."""

import shlex
import time
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from motleygp import datasets, plotting
from motleygp.datasets import Problem
from motleygp.estimator import MotleyGP

INPUT = "hour"
# The paper's first toy, with names that illustrate its types.
_NAMES = {"hetgaussian1": "river", "beta2": "cloud", "bernoulli3": "rain"}
_SHOWN = {
    "river": "river level (real): mean, 95 % interval",
    "cloud": "cloud cover (proportion): mean, 95 % interval",
    "rain": "rain (yes or no): probability of yes",
}


def day() -> Problem:
    """Synthetic weather over one day: the level of a river, the share of the sky under
    cloud, and whether it rains."""
    toy = datasets.load("t1")
    return toy._replace(
        x_train=24.0 * toy.x_train,
        x_test=24.0 * toy.x_test,
        names=tuple(_NAMES[name] for name in toy.names),
    )


def run(folder: Path, *, max_iter: int, seed: int = 0, quiet: bool = False) -> None:
    """Fit one day of weather, print the scores on held-out rows beside those of the
    constant fit, write data, model, picture and report to a folder, and print commands
    to try next."""
    console = Console()
    problem = day()
    if not quiet:
        console.print(
            f"[bold]One day of synthetic weather[/bold]: {len(problem.x_train)} rows "
            f"for training, {len(problem.x_test)} held out; one input, and "
            f"{len(problem.names)} outputs of different types."
        )
    folder.mkdir(exist_ok=True)
    train = _table(problem.x_train, problem.names, problem.y_train)
    test = _table(problem.x_test, problem.names, problem.y_test)
    model = MotleyGP(
        dict(zip(problem.names, problem.likelihoods, strict=True)),
        max_iter=max_iter,
        batch_size=100,
        random_state=seed,
        progress=not quiet,
    )
    start = time.perf_counter()
    names = list(problem.names)
    model.fit(train[[INPUT]], train[names])
    seconds = time.perf_counter() - start
    scores = model.nlpd(test[[INPUT]], test[names])
    console.print(score_table(scores, problem.constant_nlpd()))
    cut = int(np.sum(model.trace_["shrunk"] > 0))
    refused = int(np.sum(model.trace_["refused"] > 0))
    console.print(
        f"{len(model.trace_['nelbo'])} iterations in {seconds:.0f} s; "
        f"the guard shortened {cut} steps and refused {refused}."
    )
    picture(model, problem).savefig(folder / "picture.png", dpi=120)
    model.report(
        folder / "report.html", test[[INPUT]], test[names], title="The demonstration"
    )
    model.save(folder / "model.motley")
    train.to_csv(folder / "train.csv", index=False)
    test.to_csv(folder / "test.csv", index=False)
    console.print(
        f"\nLook at [bold]{folder / 'picture.png'}[/bold], and open "
        f"[bold]{folder / 'report.html'}[/bold] in a browser. Commands to try next:",
        soft_wrap=True,
    )
    for command in next_commands(folder, problem):
        console.print(f"  {command}", soft_wrap=True, highlight=False, markup=False)


def _table(x: np.ndarray, names: tuple[str, ...], y: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame({INPUT: x[:, 0]} | dict(zip(names, y.T, strict=True)))


def next_commands(folder: Path, problem: Problem) -> list[str]:
    """Commands to try next, on the files of the demonstration."""

    def place(name: str) -> str:
        return shlex.quote(str(folder / name))

    outputs = ",".join(
        f"{name}:{likelihood.name}"
        for name, likelihood in zip(problem.names, problem.likelihoods, strict=True)
    )
    return [
        f"motleygp evaluate {place('model.motley')} {place('test.csv')}",
        f"motleygp predict {place('model.motley')} {place('test.csv')} "
        f"-o {place('predicted.csv')} --quantiles 0.05,0.95",
        f"motleygp fit {place('train.csv')} --outputs {outputs} "
        f"-o {place('my.motley')}",
        f"motleygp report {place('my.motley')} {place('test.csv')} "
        f"-o {place('my-report.html')}",
    ]


def score_table(scores: dict[str, float], baseline: dict[str, float]) -> Table:
    """The NLPD of each output on held-out rows, beside that of its constant fit."""
    table = Table(title="NLPD on held-out rows (lower is better)")
    table.add_column("output")
    for column in ("MotleyGP", "constant fit", "gain"):
        table.add_column(column, justify="right")
    rows = [(name, scores[name], baseline[name]) for name in scores]
    ours_mean = float(np.mean(list(scores.values())))
    rows.append(("mean", ours_mean, float(np.mean(list(baseline.values())))))
    for name, ours, constant in rows:
        table.add_row(name, f"{ours:.3f}", f"{constant:.3f}", f"{constant - ours:.3f}")
    return table


def picture(model: MotleyGP, problem: Problem) -> Figure:
    """A figure of each output with its predictive band, and of the training."""
    figure = Figure(figsize=(12, 7), layout="constrained")
    axes = figure.subplots(2, 2).ravel()
    grid = np.linspace(0.0, 24.0, 200)[:, None]
    predictions = model.predict_dist(pd.DataFrame(grid, columns=[INPUT]))
    for ax, name, y in zip(axes, problem.names, problem.y_train.T, strict=False):
        plotting.observations(ax, problem.x_train, y)
        plotting.predictive_curve(ax, grid, predictions[name])
        ax.set_title(_SHOWN[name])
        ax.set_xlabel(INPUT)
    plotting.trace(axes[-1], model.trace_["nelbo"])
    axes[-1].set_title("training: minus the bound, by iteration")
    return figure
