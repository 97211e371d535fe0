"""The demonstration: the paper's first toy, fitted, scored, drawn and reported."""

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
from motleygp.estimator.estimator import MotleyGP


def run(folder: Path, *, max_iter: int, seed: int = 0, quiet: bool = False) -> None:
    """Fit T1 with one input, print NLPD against the marginal fit, and leave data,
    model, picture and report in a folder, with commands to go on with."""
    console = Console()
    problem = datasets.load("t1")
    if not quiet:
        console.print(
            f"[bold]T1[/bold]: {len(problem.x_train)} rows to train, "
            f"{len(problem.x_test)} to test, one input, three outputs of three types."
        )
    folder.mkdir(exist_ok=True)
    train, test = (
        _table(x, problem.names, y)
        for x, y in (
            (problem.x_train, problem.y_train),
            (problem.x_test, problem.y_test),
        )
    )
    model = MotleyGP(
        dict(zip(problem.names, problem.likelihoods, strict=True)),
        max_iter=max_iter,
        batch_size=100,
        random_state=seed,
        progress=not quiet,
    )
    start = time.perf_counter()
    names = list(problem.names)
    model.fit(train[["x"]], train[names])
    seconds = time.perf_counter() - start
    scores = model.nlpd(test[["x"]], test[names])
    console.print(score_table(scores, problem.constant_nlpd()))
    cut = int(np.sum(model.trace_["shrunk"] > 0))
    refused = int(np.sum(model.trace_["refused"] > 0))
    console.print(
        f"{len(model.trace_['nelbo'])} iterations in {seconds:.0f} s; "
        f"the guard shortened {cut} steps and refused {refused}."
    )
    picture(model, problem).savefig(folder / "picture.png", dpi=120)
    model.report(
        folder / "report.html", test[["x"]], test[names], title="The demonstration"
    )
    model.save(folder / "model.motley")
    train.to_csv(folder / "train.csv", index=False)
    test.to_csv(folder / "test.csv", index=False)
    console.print(
        f"\nLook at [bold]{folder / 'picture.png'}[/bold] and, in a browser, at "
        f"[bold]{folder / 'report.html'}[/bold]. Next, for example:",
        soft_wrap=True,
    )
    for command in next_commands(folder, problem):
        console.print(f"  {command}", soft_wrap=True, highlight=False, markup=False)


def _table(x: np.ndarray, names: tuple[str, ...], y: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame({"x": x[:, 0]} | dict(zip(names, y.T, strict=True)))


def next_commands(folder: Path, problem: Problem) -> list[str]:
    """What can be typed next, on the files that are there now."""

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
    """Test NLPD per output beside the marginal's; lower is better."""
    table = Table(title="test NLPD (lower is better)")
    table.add_column("output")
    for column in ("MotleyGP", "marginal fit", "gain"):
        table.add_column(column, justify="right")
    rows = [(name, scores[name], baseline[name]) for name in scores]
    ours_mean = float(np.mean(list(scores.values())))
    rows.append(("mean", ours_mean, float(np.mean(list(baseline.values())))))
    for name, ours, marginal in rows:
        table.add_row(name, f"{ours:.3f}", f"{marginal:.3f}", f"{marginal - ours:.3f}")
    return table


def picture(model: MotleyGP, problem: Problem) -> Figure:
    """Each output over the input, with its predictive band, and the convergence."""
    figure = Figure(figsize=(12, 7), layout="constrained")
    axes = figure.subplots(2, 2).ravel()
    grid = np.linspace(0.0, 1.0, 200)[:, None]
    predictions = model.predict_dist(pd.DataFrame(grid, columns=["x"]))
    for ax, name, y in zip(axes, problem.names, problem.y_train.T, strict=False):
        plotting.observations(ax, problem.x_train, y)
        plotting.predictive_curve(ax, grid, predictions[name])
        shown = "probability of 1" if "bernoulli" in name else "mean, 95 % interval"
        ax.set_title(f"{name}: data, {shown}")
        ax.set_xlabel("input")
    plotting.trace(axes[-1], model.trace_["nelbo"])
    axes[-1].set_title("training, minibatch by minibatch")
    return figure
