"""The demonstrations."""

import argparse

from motleygp_cli.errors import GOOD
from motleygp_cli.places import check_folder
from motleygp_cli.signals import ending_at_once


def demo(args: argparse.Namespace) -> int:
    """Run the demonstration of a fit."""
    check_folder(args.output_dir.parent)
    with ending_at_once():
        from motleygp.demos import demo

    demo.run(args.output_dir, max_iter=args.max_iter, seed=args.seed, quiet=args.quiet)
    return GOOD


def vo(args: argparse.Namespace) -> int:
    """Run variational optimisation on the paper's example."""
    check_folder(args.output_dir.parent)
    with ending_at_once():
        from motleygp.demos import vo

    vo.run(args.output_dir, seeds=args.seeds, seed=args.seed, quiet=args.quiet)
    return GOOD
