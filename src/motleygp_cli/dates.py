"""Dates in text: columns in ISO 8601 become columns of dates."""

import re
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd

_ZONE = r"Z|[+-]\d{2}(?::?\d{2})?"
_TIME = rf"\d{{2}}:\d{{2}}(?::\d{{2}}(?:[.,]\d+)?)?(?P<zone>{_ZONE})?"
_ISO = re.compile(rf"\d{{4}}-\d{{2}}(?:-\d{{2}}(?:[T ]{_TIME})?)?")


def with_dates(table: Any) -> Any:
    """A frame in which columns whose values are all ISO dates, or missing, hold dates.

    Times with an offset from UTC become times in UTC.
    """
    frame = nw.from_native(table, eager_only=True)
    new = []
    for name in frame.columns:
        column = frame[name]
        if column.dtype not in (nw.String, nw.Object):
            continue
        dates = parsed(column.to_list())
        missing = column.is_null().to_numpy()
        if missing.all() or (np.isnat(dates) & ~missing).any():
            continue
        space = nw.get_native_namespace(table)
        new.append(nw.new_series(name, dates, nw.Datetime("us"), backend=space))
    return frame.with_columns(*new).to_native() if new else table


def parsed(values: list[Any]) -> np.ndarray:
    """The dates in some values, NaT for those that are none. If some dates have an
    offset from UTC, those without one are none."""
    found = [_ISO.fullmatch(v.strip()) if isinstance(v, str) else None for v in values]
    zoned = any(match is not None and match["zone"] for match in found)
    texts = [
        match[0] if match is not None and bool(match["zone"]) == zoned else None
        for match in found
    ]
    dates = pd.to_datetime(
        pd.Series(texts, dtype=object), format="ISO8601", utc=True, errors="coerce"
    )
    return dates.dt.tz_localize(None).to_numpy().astype("datetime64[us]")
