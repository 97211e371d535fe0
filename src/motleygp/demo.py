"""The demonstration: the paper's first toy, fitted, scored and drawn."""

import time
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from motleygp import datasets, plotting
from motleygp.datasets import Problem
from motleygp.estimator import MotleyGP


def run(path: Path, *, max_iter: int, seed: int = 0, quiet: bool = False) -> None:
    """Fit T1 with one input, print NLPD against the marginal fit, save a picture."""
    console = Console()
    problem = datasets.load("t1")
    if not quiet:
        console.print(
            f"[bold]T1[/bold]: {len(problem.x_train)} rows to train, "
            f"{len(problem.x_test)} to test, one input, three outputs of three types."
        )
    model = MotleyGP(
        dict(zip(problem.names, problem.likelihoods, strict=True)),
        max_iter=max_iter,
        batch_size=100,
        random_state=seed,
        progress=not quiet,
    )
    start = time.perf_counter()
    model.fit(problem.x_train, _columns(problem.names, problem.y_train))
    seconds = time.perf_counter() - start
    scores = model.nlpd(problem.x_test, _columns(problem.names, problem.y_test))
    console.print(score_table(scores, problem.constant_nlpd()))
    cut = int(np.sum(model.trace_["shrunk"] > 0))
    refused = int(np.sum(model.trace_["refused"] > 0))
    console.print(
        f"{len(model.trace_['nelbo'])} iterations in {seconds:.0f} s; "
        f"the guard shortened {cut} steps and refused {refused}."
    )
    picture(model, problem).savefig(path, dpi=120)
    console.print(f"Picture: {path}", soft_wrap=True)


def _columns(names: tuple[str, ...], y: np.ndarray) -> dict[str, np.ndarray]:
    return dict(zip(names, y.T, strict=True))


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
    predictions = model.predict_dist(grid)
    for ax, name, y in zip(axes, problem.names, problem.y_train.T, strict=False):
        plotting.observations(ax, problem.x_train, y)
        plotting.predictive_curve(ax, grid, predictions[name])
        shown = "probability of 1" if "bernoulli" in name else "mean, 95 % interval"
        ax.set_title(f"{name}: data, {shown}")
        ax.set_xlabel("input")
    plotting.trace(axes[-1], model.trace_["nelbo"])
    axes[-1].set_title("training, minibatch by minibatch")
    return figure
