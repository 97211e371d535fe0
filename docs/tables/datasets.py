"""The tables of the page about data sets, from the registry, as Markdown.

python docs/tables/datasets.py
"""

from motleygp import datasets
from motleygp.datasets import Info


def _fetching(known: Info) -> str:
    if not known.files:
        return "drawn"
    files = " and ".join(f"`{file}`" for file in known.files)
    return f"{files}: {known.address_state}"


def _settings(known: Info) -> tuple[str, ...]:
    paper = known.paper
    if paper is None:
        return "-", "-", "-"
    numbers = (paper.num_latents, paper.num_inducing, paper.batch_size)
    return tuple("not given" if number is None else str(number) for number in numbers)


def _table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [columns, ("---",) * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def tables() -> tuple[str, str, str]:
    """The sizes and settings, the preparations, and the origins of all sets."""
    every = [datasets.info(name) for name in datasets.names()]
    sizes = [
        (k.name, k.title, k.sizes, str(len(k.inputs) or "any"), k.types, *_settings(k))
        for k in every
    ]
    prepared = [(k.name, k.preparation, k.differs) for k in every]
    origins = [(k.name, k.origin, k.licence, _fetching(k)) for k in every]
    columns = ("set", "what", "rows", "inputs", "outputs", "Q", "M", "minibatch")
    return (
        _table(columns, sizes),
        _table(("set", "preparation", "against the paper"), prepared),
        _table(("set", "origin", "licence", "data"), origins),
    )


if __name__ == "__main__":
    print("\n\n".join(tables()))
