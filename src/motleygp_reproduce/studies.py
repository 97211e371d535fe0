"""The experiments: which cells each has, and what is drawn and told of them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from motleygp_reproduce.methods import DEFAULT, METHODS, Method
from motleygp_reproduce.records import Cell

_TOYS = ("t1", "t2", "t3")


class Study(NamedTuple):
    """An experiment.

    - `name`, `title`: its name on the command line, and what it shows.
    - `figure`: the kind of its figure: "convergence" or "sizes".
    - `sets`: the data sets, each with its number of inputs (0 if it is not a toy).
    - `batch_sizes`: the minibatches of the paper's schemes.
    - `iterations`: those of the paper's schemes; the default plans its own.
    - `marks`: the iterations at which runs are scored, beside the end.
    - `num_starts`: the starts of each method, if not its usual number.
    - `methods`: the methods that are compared.
    - `given_to_default`: arguments of the default that are not its own.
    """

    name: str
    title: str
    figure: str
    sets: tuple[tuple[str, int], ...]
    batch_sizes: tuple[int, ...] = (50,)
    iterations: int = 2000
    marks: tuple[int, ...] = ()
    num_starts: int | None = None
    methods: tuple[Method, ...] = METHODS
    given_to_default: Mapping[str, Any] = MappingProxyType({})

    @property
    def cells(self) -> list[Cell]:
        """All cells, set by set. The default has one cell per set."""
        found = []
        for data, num_inputs in self.sets:
            for method in self.methods:
                sizes = (0,) if method.variant == DEFAULT else self.batch_sizes
                found += [Cell(data, num_inputs, size, method) for size in sizes]
        return found

    def seeds(self, cell: Cell) -> range:
        """The seeds of a cell's starts."""
        return range(self.num_starts or cell.method.num_starts)

    def quick(self) -> "Study":
        """The experiment in minutes on a CPU: two starts and a tenth of the iterations,
        for the first and the last of the sets and the batch sizes."""
        return self._replace(
            sets=_ends(self.sets),
            batch_sizes=_ends(self.batch_sizes),
            iterations=self.iterations // 10,
            marks=tuple(mark // 10 for mark in self.marks),
            num_starts=2,
            given_to_default={"max_iter": self.iterations // 10},
        )


def _ends(values: tuple) -> tuple:
    return tuple(dict.fromkeys((values[0], values[-1])))


_ALL = (
    Study(
        name="toy-convergence",
        title="T2 with ten inputs: convergence, and the scores of each output",
        figure="convergence",
        sets=(("t2", 10),),
        marks=(100, 500, 1000, 1500),
    ),
    Study(
        name="toy-dimensions",
        title="The toys with one to twenty inputs",
        figure="sizes",
        sets=tuple((toy, p) for toy in _TOYS for p in (1, 2, 3, 4, 5, 10, 20)),
    ),
    Study(
        name="toy-batch",
        title="T2 with ten inputs and minibatches of three sizes",
        figure="sizes",
        sets=(("t2", 10),),
        batch_sizes=(10, 50, 200),
        marks=(500, 1000),
    ),
)
STUDIES: Mapping[str, Study] = MappingProxyType({study.name: study for study in _ALL})
