"""The methods that the experiments compare: the paper's schemes, and our default."""

from typing import NamedTuple

# The schemes, in the order of the paper's legends.
SCHEMES = {"sgd": "SGD", "adam": "Adam", "hybrid": "HYB", "fng": "FNG"}
# Variants: the paper's schemes as its published code computes them, and as the paper
# states them; and MotleyGP with its default settings.
AUTHORS, PAPER, DEFAULT = "authors", "paper", "default"
VARIANTS = (AUTHORS, PAPER, DEFAULT)
# SGD and Adam have fewer starts than the methods that are compared closely.
_STARTS = {"sgd": 10, "adam": 10, "hybrid": 20, "fng": 20}


class Method(NamedTuple):
    """A scheme in one variant."""

    variant: str
    scheme: str

    @property
    def label(self) -> str:
        """The name in legends and tables."""
        name = SCHEMES[self.scheme]
        return "default" if self.variant == DEFAULT else f"{name}, {self.variant}"

    @property
    def num_starts(self) -> int:
        return _STARTS[self.scheme]


METHODS = (
    *(Method(variant, scheme) for variant in (AUTHORS, PAPER) for scheme in SCHEMES),
    Method(DEFAULT, "fng"),
)


def named(name: str) -> Method:
    """The method of a name such as "paper-fng" or "default"."""
    known = {method_name(method): method for method in METHODS}
    if name not in known:
        raise ValueError(f"a method must be one of {', '.join(known)}; got {name!r}.")
    return known[name]


def method_name(method: Method) -> str:
    """The name of a method on the command line."""
    variant, scheme = method
    return variant if variant == DEFAULT else f"{variant}-{scheme}"
