"""The experiments of the paper."""

import argparse

from motleygp_cli.errors import GOOD, UsageError
from motleygp_cli.parser.reproduce import VO
from motleygp_cli.places import check_folder
from motleygp_cli.signals import ending_at_once


def reproduce(args: argparse.Namespace) -> int:
    """Run an experiment, or what is missing of it."""
    check_folder(args.output_dir.parent)
    with ending_at_once():
        import motleygp_reproduce
        from motleygp_reproduce.methods import named

    if args.experiment == VO:
        return _vo(args)
    try:
        methods = None if args.methods is None else [named(m) for m in args.methods]
    except ValueError as error:
        raise UsageError(f"--methods: {error}") from None
    study = motleygp_reproduce.STUDIES[args.experiment]
    study = study.quick() if args.quick else study
    name = f"{study.name}-quick" if args.quick else study.name
    if args.inits is not None:
        study = study._replace(num_starts=args.inits)
    motleygp_reproduce.reproduce(
        study,
        args.output_dir / name,
        methods=methods,
        jobs=args.jobs,
        data_dir=args.data_dir,
        quiet=args.quiet,
    )
    return GOOD


def _vo(args: argparse.Namespace) -> int:
    """The demonstration of variational optimisation, which has files of its own."""
    from motleygp.demos import vo

    args.output_dir.mkdir(exist_ok=True)
    seeds = 10 if args.quick else args.inits or 100
    vo.run(args.output_dir / VO, seeds=seeds, quiet=args.quiet)
    return GOOD
