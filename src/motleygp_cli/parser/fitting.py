"""The arguments of `motleygp fit`."""

from pathlib import Path

from motleygp_cli.parser import values
from motleygp_cli.parser.base import (
    Command,
    Parser,
    add_data,
    add_json_and_quiet,
    add_output,
)


def _add_arguments(fit: Parser) -> None:
    add_data(fit)
    _add_columns(fit)
    add_output(fit, "MODEL", "the model file to write")
    said = "a TOML file with inputs, outputs and any setting"
    fit.add_option("--config", Path, "TOML", said)
    _add_choices(fit)
    _add_numbers(fit)
    fit.add_argument(
        "--resume", action="store_true", help="continue after a crash or Ctrl-C"
    )
    add_json_and_quiet(fit)


def _add_columns(fit: Parser) -> None:
    said = "the input columns, separated by commas (default: all but the outputs)"
    fit.add_option("--inputs", values.names, "COLUMNS", said)
    said = "the output columns, separated by commas, each as NAME:LIKELIHOOD, or as "
    said += "NAME to infer the likelihood"
    fit.add_option("--outputs", values.outputs, "COLUMNS", said)


def _add_choices(fit: Parser) -> None:
    fit.add_argument(
        "--prior",
        choices=("lmc", "convolution"),
        help="how the outputs share latent processes (default: lmc)",
    )
    fit.add_argument(
        "--inducing",
        choices=("auto", "function", "latent"),
        help="the inducing values of the convolution prior: values of the functions or "
        "of the latent processes (default: auto)",
    )
    fit.add_argument(
        "--posterior",
        choices=("auto", "factorised", "joint"),
        help="whether the latent processes are independent given the data, or joint, "
        "which is better and costs more (default: auto)",
    )
    fit.add_argument(
        "--optimizer",
        choices=("fng", "hybrid", "adam", "sgd"),
        help="the training scheme (default: fng, fully natural gradients)",
    )
    fit.add_argument(
        "--effort",
        choices=("quick", "standard", "thorough"),
        help="how much time to spend: sizes that are not given (default: standard)",
    )


def _add_numbers(fit: Parser) -> None:
    for flag, help in (
        ("num-latents", "latent processes (default: depends on the outputs)"),
        ("num-inducing", "inducing points of each process (default: at most 80)"),
        ("max-iter", "maximum number of iterations (default: at most 2000)"),
        ("batch-size", "rows in each iteration (default: 256, or all of few rows)"),
        ("restarts", "number of starts; the best one is kept (default: 1)"),
    ):
        fit.add_option(f"--{flag}", values.count, "N", help)
    said = "share of the rows held out for early stopping (default: 0)"
    fit.add_option("--validation-fraction", float, "SHARE", said)
    said = "stop after this time and keep the model (default: no limit)"
    fit.add_option("--time-limit", float, "SECONDS", said)
    said = "random seed of the starts and the minibatches (default: 0)"
    fit.add_option("--seed", values.seed, "N", said)


FIT = Command(
    "fit",
    "fit a model to a table and save it",
    "sales.csv --inputs east,north --outputs change,sold:bernoulli -o sales.motley",
    _add_arguments,
)
