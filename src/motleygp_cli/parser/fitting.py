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
    fit.add_argument(
        "--config",
        type=Path,
        metavar="TOML",
        help="a TOML file with inputs, outputs and any setting",
    )
    _add_choices(fit)
    _add_numbers(fit)
    fit.add_argument(
        "--resume", action="store_true", help="continue after a crash or Ctrl-C"
    )
    add_json_and_quiet(fit)


def _add_columns(fit: Parser) -> None:
    fit.add_argument(
        "--inputs",
        type=values.names,
        metavar="COLUMNS",
        help="the input columns, separated by commas (default: all but the outputs)",
    )
    fit.add_argument(
        "--outputs",
        type=values.outputs,
        metavar="COLUMNS",
        help="the output columns, separated by commas, each as NAME:LIKELIHOOD, or as "
        "NAME to infer the likelihood",
    )


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
        "--optimizer",
        choices=("fng", "hybrid", "adam", "sgd"),
        help="the training scheme (default: fng, fully natural gradients)",
    )


def _add_numbers(fit: Parser) -> None:
    for flag, help in (
        ("num-latents", "latent processes (default: depends on the outputs)"),
        ("num-inducing", "inducing points of each process (default: 80)"),
        ("max-iter", "maximum number of iterations (default: 2000)"),
        ("batch-size", "rows in each iteration (default: 256)"),
        ("restarts", "number of starts; the best one is kept (default: 1)"),
    ):
        fit.add_argument(f"--{flag}", type=values.count, metavar="N", help=help)
    fit.add_argument(
        "--validation-fraction",
        type=float,
        metavar="SHARE",
        help="share of the rows held out for early stopping (default: 0)",
    )
    fit.add_argument(
        "--time-limit",
        type=float,
        metavar="SECONDS",
        help="stop after this time and keep the model (default: no limit)",
    )
    fit.add_argument(
        "--seed",
        type=values.seed,
        metavar="N",
        help="random seed of the starts and the minibatches (default: 0)",
    )


FIT = Command(
    "fit",
    "fit a model to a table and save it",
    "sales.csv --inputs east,north --outputs change,sold:bernoulli -o sales.motley",
    _add_arguments,
)
