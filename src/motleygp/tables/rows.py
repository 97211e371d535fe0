"""The rows of users' tables: their labels, and one order for all tables.

Only pandas labels rows. Two tables of as many rows belong together by their labels, if
these are distinct and the same for both; otherwise by position, if their labels are
equal or one of them has the labels 0, 1, 2, ... that pandas gives by default. Tables
with other labels do not belong together.
"""

from typing import Any

import narwhals as nw
import pandas as pd


def labels_of(value: Any) -> pd.Index | None:
    """The labels of the rows of a pandas frame or series; `None` for other values."""
    native = nw.to_native(value, pass_through=True)
    return native.index if isinstance(native, pd.Series | pd.DataFrame) else None


def aligned(value: Any, labels: pd.Index | None, what: str, of: str = "`X`") -> Any:
    """The value with its rows in the order of `labels`, if both have labels.

    `what` and `of` name the value and the owner of the labels in a `ValueError`.
    """
    own = labels_of(value)
    if own is None or labels is None or len(own) != len(labels) or own.equals(labels):
        return value
    distinct = own.is_unique and labels.is_unique and own.nlevels == labels.nlevels
    places = own.get_indexer(labels) if distinct else None
    if places is not None and (places >= 0).all():
        return nw.to_native(value, pass_through=True).iloc[places]
    if _by_default(own) or _by_default(labels):
        return value
    rule = f"{what} must have the row labels of {of}"
    if places is None:
        raise ValueError(
            f"{rule} in its order, because labels repeat; got another order."
        )
    absent = labels[places < 0]
    raise ValueError(
        f"{rule}, or the labels 0, 1, 2, ...; got none for {row_name(absent, 0)}"
        f"{f' and {len(absent) - 1} more' if len(absent) > 1 else ''}."
    )


def _by_default(labels: pd.Index) -> bool:
    return labels.equals(pd.RangeIndex(len(labels)))


def row_name(labels: pd.Index | None, row: int) -> str:
    """The row as the user knows it: by its label, or by its number."""
    if labels is None:
        return f"row {row}"
    label = labels[[row]].tolist()[0]
    return f"row {label!r}" if isinstance(label, str | tuple) else f"row {label}"
