"""The memory of a fit, by the benchmark that measures it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "memory.py"


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["0", "0.3"])
def test_a_fit_of_many_rows_holds_less_than_four_times_its_arrays(missing):
    command = [sys.executable, str(SCRIPT), "--missing", missing]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    *_, last = re.findall(r"^\| (\d+) .* \| ([\d.]+) \| [\d.]+ \|$", done.stdout, re.M)
    assert last[0] == "5000000"
    assert float(last[1]) <= 4.0
