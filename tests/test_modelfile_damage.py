"""Damaged and hostile files are refused, and a failed write leaves the old file."""

import errno
import hashlib
import io
import json
import os
import re
import resource
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from motleygp.files import modelfile
from motleygp.files.modelfile import MAX_TABLE, ModelFileError
from test_modelfile import HEADER, mutations, same, some_arrays


@pytest.fixture
def path(tmp_path) -> Path:
    """The place of a file, in a folder with nothing else."""
    folder = tmp_path / "models"
    folder.mkdir()
    return folder / "a.model"


@pytest.fixture
def time_limit() -> Iterator[None]:
    """Let a test that would hang fail."""

    def stop(*_: object) -> None:
        raise TimeoutError("not done after 10 s")

    old = signal.signal(signal.SIGALRM, stop)
    signal.alarm(10)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, old)


def refusal(path: Path) -> str:
    """The message with which a file is refused: one short line that names the file."""
    with pytest.raises(ModelFileError) as caught:
        modelfile.read(path)
    message = str(caught.value)
    assert message.startswith(f"{str(path)!r} ") and message.endswith(".")
    assert "\n" not in message and len(message) < 200 + len(str(path))
    return message


# Damage.


def test_every_flipped_byte_is_refused(path):
    arrays = {"n": np.array([1, 2], np.int32), "b": np.array(True)}
    modelfile.write(path, {"a": [1.5, "ö", None]}, arrays)
    data = path.read_bytes()
    for position in range(len(data)):
        for mask in (*(1 << bit for bit in range(8)), 0xFF):
            damaged = bytearray(data)
            damaged[position] ^= mask
            path.write_bytes(damaged)
            refusal(path)


def test_every_other_length_is_refused(path):
    modelfile.write(path, {"a": 1}, {"n": np.arange(3), "empty": np.zeros(0)})
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        assert "is not a whole safetensors file" in refusal(path)
    for extra in (b"\x00", b" ", b"\x00" * 8, data):
        path.write_bytes(data + extra)
        assert "is not a whole safetensors file" in refusal(path)


def test_random_damage_is_refused(path, rng):
    content = (HEADER, some_arrays())
    modelfile.write(path, *content)
    data = path.read_bytes()
    changed = 0
    for mutant in mutations(data, rng, 1000):
        path.write_bytes(mutant)
        if mutant == data:
            assert same(modelfile.read(path), content)
        else:
            refusal(path)
            changed += 1
    assert changed > 900


# Files with a fault that no accident makes.


def forge(metadata: Any, **arrays: tuple[str, list[int], bytes]) -> bytes:
    """A safetensors file with any metadata and any arrays: type, shape and bytes."""
    table, data = {"__metadata__": metadata}, b""
    for name, (dtype, shape, part) in arrays.items():
        offsets = [len(data), len(data) + len(part)]
        table[name] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
        data += part
    return table_file(json.dumps(table).encode()) + data


def table_file(table: bytes) -> bytes:
    return struct.pack("<Q", len(table)) + table


def signed(header: str) -> dict[str, str]:
    """The metadata of a file with this header, without arrays."""
    digest = hashlib.sha256(json.dumps([header, []]).encode()).hexdigest()
    return dict(format="motleygp", version="2", header=header, sha256=digest)


def without(entry: str) -> dict[str, str]:
    return {key: text for key, text in signed("{}").items() if key != entry}


def one_array(dtype: str, shape: list[int], data: bytes) -> bytes:
    return forge(signed("{}"), a=(dtype, shape, data))


DAMAGED = "is damaged: its digest does not match"
FOREIGN = "is a safetensors file that MotleyGP did not write"
NOT_JSON = "has a header that is not valid JSON"
NOT_OBJECT = "has a header that is not a JSON object"
NOT_WHOLE = "is not a whole safetensors file"
LONG_TABLE = f"must have at most {MAX_TABLE} bytes; got "
VERSION = "has format version {}; this MotleyGP reads format version '2' only"
FORGED = {
    "an empty file": (b"", NOT_WHOLE),
    "a text": (b"This is a text.", LONG_TABLE),
    "a table of the largest length": (b"\xff" * 8 + b"{}", LONG_TABLE),
    "a table over the limit": (forge(signed('"' + "x" * MAX_TABLE)), LONG_TABLE),
    "a table longer than the file": (struct.pack("<Q", MAX_TABLE) + b"{}", NOT_WHOLE),
    "a table that is not UTF-8": (table_file(b'{"\xff":1}'), NOT_WHOLE),
    "a table nested for ever": (table_file(b"[" * 1_000_000), NOT_WHOLE),
    "metadata of numbers": (forge({"format": 1}), NOT_WHOLE),
    "another safetensors file": (safetensors.numpy.save({"a": np.ones(2)}), FOREIGN),
    "another program's metadata": (forge({"format": "pt"}), FOREIGN),
    "an older version": (forge(signed("{}") | {"version": "1"}), VERSION.format("'1'")),
    "a newer version": (forge(signed("{}") | {"version": "3"}), VERSION.format("'3'")),
    "an odd version": (
        forge(signed("{}") | {"version": "\n" * 999}),
        "\\n\\n\\n'; this",
    ),
    "no version": (forge(without("version")), VERSION.format("'none'")),
    "no header": (forge(without("header")), DAMAGED),
    "no digest": (forge(without("sha256")), DAMAGED),
    "another digest": (forge(signed("{}") | {"sha256": "0" * 64}), DAMAGED),
    "a header that is empty": (forge(signed("")), NOT_JSON),
    "a header with NaN": (forge(signed('{"a": NaN}')), NOT_JSON),
    "a header with an infinity": (forge(signed('{"a": [-Infinity]}')), NOT_JSON),
    "a header with a float too large": (forge(signed('{"a": 1e999}')), NOT_JSON),
    "a header with many digits": (forge(signed("9" * 1_000_000)), NOT_JSON),
    "a header nested for ever": (forge(signed('{"a":' + "[" * 1_000_000)), NOT_JSON),
    "a header that is a list": (forge(signed("[]")), NOT_OBJECT),
    "a header that is null": (forge(signed("null")), NOT_OBJECT),
    "an array without a digest": (one_array("U8", [1], b"a"), DAMAGED),
    "an array of halves": (one_array("F16", [1], b"ab"), "an array of type F16; it"),
    "an array of bfloats": (one_array("BF16", [1], b"ab"), "an array of type BF16; it"),
    "an array of no type": (one_array("O", [1], b"12345678"), NOT_WHOLE),
    "an array with a negative side": (one_array("U8", [-1], b"a"), NOT_WHOLE),
    "an array with the longest side": (one_array("U8", [2**64 - 1, 0], b""), NOT_WHOLE),
    "an array with too many sides": (one_array("U8", [1] * 65, b"a"), NOT_WHOLE),
    "an array larger than its data": (one_array("U8", [2**40], b"a"), NOT_WHOLE),
    "an array of overflowing size": (one_array("F64", [2**32] * 3, b""), NOT_WHOLE),
}


@pytest.mark.usefixtures("time_limit")
@pytest.mark.parametrize("fault", FORGED)
def test_forged_files_are_refused(path, fault):
    # A forgery without a fault is read.
    path.write_bytes(forge(signed('{"a": [1]}')))
    assert modelfile.read(path) == ({"a": [1]}, {})
    data, message = FORGED[fault]
    path.write_bytes(data)
    assert message in refusal(path)


@pytest.mark.usefixtures("time_limit")
def test_only_a_regular_file_is_read_or_replaced(path):
    assert "is not a regular file" in refusal(path.parent)
    os.mkfifo(path)
    assert "is not a regular file" in refusal(path)
    with pytest.raises(OSError, match=r"Not a regular file: .*a\.model"):
        modelfile.write(path, {}, {})
    assert list(path.parent.iterdir()) == [path] and path.is_fifo()


# The module alone, without the package and so without JAX.
CHILD = """
import importlib.util, io, pathlib, resource, sys, time
import numpy as np
spec = importlib.util.spec_from_file_location("modelfile", sys.argv[1])
modelfile = importlib.util.module_from_spec(spec)
spec.loader.exec_module(modelfile)
"""


def child(code: str, *arguments: str | Path) -> subprocess.Popen:
    """A process that runs `code` with the module."""
    return subprocess.Popen(
        [sys.executable, "-c", CHILD + code, modelfile.__file__, *arguments],
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )


READ_IN_LITTLE_MEMORY = """
pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
limit = pages * resource.getpagesize() + int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for file in sorted(pathlib.Path(sys.argv[2]).iterdir()):
    try:
        modelfile.read(file)
        print("read")
    except (modelfile.ModelFileError, MemoryError) as error:
        print(type(error).__name__)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit on memory")
def test_a_hostile_table_takes_bounded_memory(path):
    room = 192 * 2**20
    lists = json.dumps({"": [[]] * (MAX_TABLE // 4 - 100)})
    entries = {f"{i:08x}": ("U8", [0], b"") for i in range(MAX_TABLE // 66)}
    path.with_name("1").write_bytes(forge(signed(lists)))
    path.with_name("2").write_bytes(forge(signed("{}"), **entries))
    assert min(p.stat().st_size for p in path.parent.iterdir()) > 0.9 * MAX_TABLE
    with open(path.with_name("3"), "wb") as file:
        file.write(struct.pack("<Q", 2**30 - 8))
        file.truncate(2**30)
    # The limit does work: a file of that size does not fit.
    path.with_name("4").write_bytes(one_array("U8", [room], bytes(room)))
    output, _ = child(READ_IN_LITTLE_MEMORY, path.parent, str(room)).communicate()
    assert output == "read\nModelFileError\nModelFileError\nMemoryError\n"


# A write is complete or leaves everything as it was.


def break_write(monkeypatch: Any, step: str, error: BaseException) -> None:
    """Let one step of a write raise `error`."""
    count = {"first write": 1, "second write": 2}.get(step, 0)

    def fail(*_: object, **__: object) -> None:
        raise error

    class FailingFile(io.FileIO):
        def write(self, data: Any) -> int:
            nonlocal count
            count -= 1
            if count == 0:
                super().write(data[: len(data) // 2])
                raise error
            return super().write(data)

    if count:
        monkeypatch.setattr(modelfile, "open", FailingFile, raising=False)
    else:
        monkeypatch.setattr(os, step, fail)


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("step", ["first write", "second write", "fsync", "replace"])
def test_an_error_leaves_all_as_it_was(path, monkeypatch, step, error, there):
    if there:
        modelfile.write(path, HEADER, some_arrays())
    before = {p: p.read_bytes() for p in path.parent.iterdir()}
    break_write(monkeypatch, step, error(errno.ENOSPC, "No space left on device"))
    with pytest.raises(error, match="No space left on device") as caught:
        modelfile.write(path, {}, {"a": np.ones(1000)})
    if error is OSError:
        assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(path))
    monkeypatch.undo()
    assert {p: p.read_bytes() for p in path.parent.iterdir()} == before


def test_a_disk_that_is_really_full_leaves_all_as_it_was(path):
    modelfile.write(path, HEADER, some_arrays())
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(OSError, match=re.escape(repr(str(path)))) as caught:
            modelfile.write(path, {}, {"a": np.ones(100_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.errno == errno.EFBIG
    assert [p.read_bytes() for p in path.parent.iterdir()] == [before]


STOP_HALFWAY = """
class Halting(io.FileIO):
    def write(self, data):
        if len(data) > 1000:
            super().write(data[:1000])
            print("halfway", flush=True)
            time.sleep(600)
        return super().write(data)
modelfile.open = Halting
modelfile.write(sys.argv[2], {"i": 2}, {"a": np.full(50_000, 2)})
"""


def test_a_writer_killed_halfway_leaves_the_old_file_and_no_hindrance(path):
    modelfile.write(path, {"i": 1}, {"a": np.full(5, 1)})
    before = path.read_bytes()
    with child(STOP_HALFWAY, path) as process:
        assert process.stdout is not None and process.stdout.readline() == "halfway\n"
        process.kill()
    assert path.read_bytes() == before
    (left,) = [p for p in path.parent.iterdir() if p != path]
    assert left.name.startswith(".motleygp-") and left.stat().st_size > 1000
    modelfile.write(path, {"i": 3}, {})
    assert modelfile.read(path)[0] == {"i": 3}
    assert set(path.parent.iterdir()) == {path, left}


WRITE_OFTEN = """
i = int(sys.argv[3])
for _ in range(40):
    modelfile.write(sys.argv[2], {"i": i}, {"a": np.full(20_000 * i, i)})
"""


def test_two_writers_at_once_do_not_harm_each_other(path):
    modelfile.write(path, {"i": 0}, {"a": np.zeros(3)})
    seen = set()
    writers = [child(WRITE_OFTEN, path, str(i)) for i in (1, 2)]
    while any(writer.poll() is None for writer in writers):
        header, arrays = modelfile.read(path)
        assert arrays["a"].size > 0 and (arrays["a"] == header["i"]).all()
        seen.add(header["i"])
    for writer in writers:
        writer.communicate()
    assert [writer.returncode for writer in writers] == [0, 0] and seen >= {1, 2}
    assert list(path.parent.iterdir()) == [path]
