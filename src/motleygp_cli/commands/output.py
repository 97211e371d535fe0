"""Results on standard output."""

import json
from typing import Any

from rich.console import Console


def show(result: dict[str, Any], line: str, as_json: bool) -> None:
    """Print a result as JSON, or else as one line of text."""
    if as_json:
        print(json.dumps(result))
    else:
        Console().print(line, soft_wrap=True, highlight=False)


def show_table(path: object, rows: int, as_json: bool) -> None:
    """Print the place and the length of a table that was written."""
    show({"table": str(path), "rows": rows}, f"{rows} rows: {path}", as_json)
