"""The form of a registry entry: what is known about a data set, as plain data."""

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "MOTLEYGP_DATA"


def data_folder(data_dir: str | os.PathLike | None) -> Path | None:
    """The folder of the files: as given, or else from the environment."""
    folder = data_dir or os.environ.get(VARIABLE)
    return Path(folder) if folder else None


@dataclass(frozen=True)
class Paper:
    """The paper's settings for a set: the number of latent processes Q, the inducing
    points M of each, and the rows of a minibatch; None where the paper gives none."""

    num_latents: int
    num_inducing: int | None = None
    batch_size: int | None = None

    def __str__(self) -> str:
        parts = [f"Q = {self.num_latents}"]
        if self.num_inducing is not None:
            parts.append(f"M = {self.num_inducing}")
        if self.batch_size is not None:
            parts.append(f"minibatches of {self.batch_size}")
        return ", ".join(parts)


@dataclass(frozen=True)
class Info:
    """What is known about a data set.

    **Attributes:**

    - `name`, `title`: its name in `load`, and what it is.
    - `rows`: the number of its rows, or one number per output where they differ.
    - `inputs`: the names of its inputs; none for a toy, which has as many as asked.
    - `outputs`: pairs of an output's name and its likelihood.
    - `preparation`: what is done to the values of the files.
    - `differs`: how the set differs from the paper's.
    - `origin`, `licence`: where it comes from, and on what terms.
    - `files`: its files in the folder of the data; none if it is drawn.
    - `checksum`: the SHA-256 digest of the files' arrays, before the preparation; None
      where it is not known.
    - `address`, `downloads`: the public folder that `fetch` reads, and the files there;
      without an address, `obstacle` says why.
    - `tried`: whether `fetch` has been tried with that address.
    - `constant_inputs`, `left_out`: inputs that hold one value, which stay, and outputs
      that hold one value, which are left out.
    - `paper`: the paper's settings, if the paper has the set.
    """

    name: str
    title: str
    rows: int | tuple[int, ...]
    inputs: tuple[str, ...]
    outputs: tuple[tuple[str, str], ...]
    preparation: str
    differs: str
    origin: str
    licence: str
    files: tuple[str, ...] = ()
    checksum: str | None = None
    address: str | None = None
    downloads: tuple[str, ...] = ()
    obstacle: str = ""
    tried: bool = False
    constant_inputs: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    paper: Paper | None = None

    @property
    def types(self) -> str:
        """The likelihoods of the outputs in words, such as "7 hetgaussian"."""
        counts = Counter(kind for _, kind in self.outputs)
        return ", ".join(
            kind if count == 1 else f"{count} {kind}" for kind, count in counts.items()
        )

    @property
    def sizes(self) -> str:
        """The numbers of rows in words."""
        rows = self.rows if isinstance(self.rows, tuple) else (self.rows,)
        return ", ".join(str(number) for number in rows)

    @property
    def address_state(self) -> str:
        """What is known of `fetch` for this set."""
        if self.address is None:
            return "no address"
        return "fetch tried" if self.tried else "fetch not tried"

    def absent(self, data_dir: str | os.PathLike | None = None) -> tuple[str, ...]:
        """The files of the set that the folder lacks."""
        folder = data_folder(data_dir)
        return tuple(
            file
            for file in self.files
            if folder is None or not (folder / file).is_file()
        )
