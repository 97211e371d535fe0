"""The command `motleygp`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="motleygp",
        description="Heterogeneous multi-output Gaussian processes.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser(
        "demo",
        help="fit a toy, print its scores and save a picture",
        epilog="example: motleygp demo -o toy.png",
    )
    demo.add_argument(
        "-o", "--output", type=Path, default=Path("motleygp-demo.png"), metavar="PNG"
    )
    demo.add_argument("--max-iter", type=int, default=1500, metavar="N")
    demo.add_argument("--seed", type=int, default=0, metavar="N")
    demo.add_argument("--quiet", action="store_true", help="no progress bar")
    demo.set_defaults(run=_demo)
    _add_vo(commands)
    return parser


def _demo(args: argparse.Namespace) -> None:
    from motleygp import demo

    if not args.output.parent.is_dir():
        raise ValueError(f"there is no folder {str(args.output.parent)!r} to write to.")
    demo.run(args.output, max_iter=args.max_iter, seed=args.seed, quiet=args.quiet)


def _add_vo(commands: argparse._SubParsersAction) -> None:
    vo = commands.add_parser(
        "vo",
        help="variational optimisation on the paper's example, from many seeds",
        epilog="example: motleygp vo -o pictures --seeds 1000",
    )
    vo.add_argument(
        "-o",
        "--output-dir",
        type=Path,
        default=Path("motleygp-vo"),
        metavar="FOLDER",
        help="where the pictures go",
    )
    vo.add_argument("--seeds", type=int, default=100, metavar="N")
    vo.add_argument("--seed", type=int, default=0, metavar="N", help="of the first run")
    vo.add_argument("--quiet", action="store_true", help="the tables alone")
    vo.set_defaults(run=_vo)


def _vo(args: argparse.Namespace) -> None:
    from motleygp import vo

    if not args.output_dir.parent.is_dir():
        parent = str(args.output_dir.parent)
        raise ValueError(f"there is no folder {parent!r} to write to.")
    vo.run(args.output_dir, seeds=args.seeds, seed=args.seed, quiet=args.quiet)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command: 0 when it worked, 1 when it failed, 2 for wrong use."""
    args = _parser().parse_args(argv)
    try:
        args.run(args)
    except (OSError, ValueError, FloatingPointError) as error:
        print(f"motleygp: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0
