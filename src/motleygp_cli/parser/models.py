"""The arguments of the commands that use a model: predict, evaluate and report."""

from pathlib import Path

from motleygp_cli.parser import values
from motleygp_cli.parser.base import (
    Command,
    Parser,
    add_json_and_quiet,
    add_model_and_data,
    add_output,
)


def _add_predict(predict: Parser) -> None:
    add_model_and_data(predict)
    add_output(predict, "TABLE", "the table to write")
    predict.add_argument(
        "--quantiles",
        type=values.levels,
        default=[],
        metavar="P,P",
        help="levels between 0 and 1; each adds a column for every output",
    )
    predict.add_argument(
        "--given", action="store_true", help="condition on the outputs in the table"
    )
    add_json_and_quiet(predict)


def _add_evaluate(evaluate: Parser) -> None:
    add_model_and_data(evaluate)
    add_json_and_quiet(evaluate)


def _add_report(report: Parser) -> None:
    report.add_argument("model", type=Path, help="a model file written by `fit`")
    report.add_argument(
        "data",
        type=Path,
        nargs="?",
        help="a table with rows to score, which the fit has not seen",
    )
    add_output(report, "HTML", "the page to write")
    said = "compare with one model per output, fitted to this table"
    report.add_option("--train", Path, "TABLE", said)
    said = "maximum number of rows to score (default: 2000, fewer for many outputs)"
    report.add_option("--max-rows", values.count, "N", said)
    report.add_argument("--title", metavar="TEXT", help="the title of the page")
    add_json_and_quiet(report)


PREDICT = Command(
    "predict",
    "predict means, standard deviations and quantiles for the rows of a table",
    "sales.motley new.csv -o predicted.csv --quantiles 0.05,0.95",
    _add_predict,
)
EVALUATE = Command(
    "evaluate",
    "score a model on a table that has its outputs",
    "sales.motley test.csv",
    _add_evaluate,
)
REPORT = Command(
    "report",
    "describe a model on an HTML page: one file with pictures that needs no network",
    "sales.motley test.csv -o report.html",
    _add_report,
)
