"""One file for a model: it comes back as it was, or is refused; it is never torn."""

import collections
import contextlib
import errno
import hashlib
import json
import os
import re
import resource
import signal
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors

from motleygp.files import modelfile

START = struct.Struct("<8sI32sQ")
DTYPES = ["f8", "f4", "i8", "i4", "u8", "u4", "u1", "?"]
HEADER = {
    "kind": "model",
    "größe": [1, 2.5, -0.0, 1e-320, 0.1, None, True, False],
    "nested": {"b": {"": [[], {}, "\x00\n\"\\'"]}, "a": "日本 😀"},
    "state": {"large": 2**127 + 1, "small": -(2**63)},
}


def some_arrays() -> dict[str, np.ndarray]:
    """Every type, with the values that are easiest to lose."""
    arrays = {
        f"of type {code}": np.array([[0, 1, 2], [3, 0, 5]]).astype(code)
        for code in DTYPES
    }
    return arrays | {
        "special": np.array([np.nan, np.inf, -np.inf, -0.0, 5e-324, 1.7e308]),
        "extremes": np.array([-(2**63), 2**63 - 1]),
        "scalar": np.array(2.5),
        "scalar bool": np.array(True),
        "empty": np.zeros((0, 3)),
        "empty bools": np.zeros((2, 0, 2), bool),
        "größe\n日本 😀": np.arange(3),
        "": np.arange(2, dtype=np.uint32),
    }


def same(
    one: tuple[dict[str, Any], dict[str, np.ndarray]],
    other: tuple[dict[str, Any], dict[str, np.ndarray]],
) -> bool:
    """Whether two contents are equal to the bit, the order of the header included."""
    return (
        json.dumps(one[0]) == json.dumps(other[0])
        and one[1].keys() == other[1].keys()
        and all(
            a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
            for a, b in ((one[1][name], other[1][name]) for name in one[1])
        )
    )


def sealed(payload: bytes, version: int = 1) -> bytes:
    """A file with this payload and a right checksum."""
    digest = hashlib.sha256(payload).digest()
    return START.pack(b"MOTLEYGP", version, digest, len(payload)) + payload


def table_file(table: str | bytes, data: bytes = b"") -> bytes:
    """A file with this table and a right checksum."""
    table = table.encode() if isinstance(table, str) else table
    return sealed(len(table).to_bytes(8, "little") + table + data)


def header_file(text: str) -> bytes:
    """A file with this text for a header, and no arrays."""
    return table_file(json.dumps({"__metadata__": {"header": text}}))


def array_file(dtype: str, shape: list[int], data: bytes) -> bytes:
    """A file with one array, `a`."""
    entry = {"dtype": dtype, "shape": shape, "data_offsets": [0, len(data)]}
    table = {"__metadata__": {"header": "{}"}, "a": entry}
    return table_file(json.dumps(table), data)


@pytest.fixture
def path(tmp_path) -> Path:
    """Where a file goes, in a folder with nothing else."""
    folder = tmp_path / "models"
    folder.mkdir()
    return folder / "a.model"


@pytest.fixture
def no_sync(monkeypatch):
    """For the many writes of tests that do not ask whether the disk has them."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """A test that would hang fails."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"not done after {seconds} s")

    old = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


# What goes in comes out.


def test_everything_comes_back_as_it_was(path):
    arrays = some_arrays()
    modelfile.write(path, HEADER, arrays)
    assert same(modelfile.read(path), (HEADER, arrays))
    assert [p.name for p in path.parent.iterdir()] == ["a.model"]


@pytest.mark.parametrize("name", list(some_arrays()))
def test_each_array_comes_back_alone_writable_and_owned(path, name):
    array = some_arrays()[name]
    modelfile.write(path, {}, {name: array})
    header, arrays = modelfile.read(path)
    assert same((header, arrays), ({}, {name: array}))
    assert type(arrays[name]) is np.ndarray
    assert arrays[name].flags.owndata and arrays[name].flags.writeable
    assert arrays[name].flags.c_contiguous and arrays[name].flags.aligned
    assert arrays[name].dtype.isnative
    arrays[name][...] = 0


@pytest.mark.parametrize(
    "array",
    [
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(6.0).reshape(2, 3).T,
        np.arange(10)[::3],
        np.arange(10)[::-1],
        np.arange(24.0).reshape(2, 3, 4)[:, 1, ::2],
        np.broadcast_to(np.arange(3.0), (4, 3)),
        np.arange(3, dtype=">f8"),
        np.array(7, dtype=">i4"),
        np.arange(4, dtype=np.longlong),
    ],
    ids=lambda a: f"{a.dtype.str}, strides {a.strides}",
)
def test_memory_in_any_order_keeps_its_values(path, array):
    modelfile.write(path, {}, {"a": array})
    back = modelfile.read(path)[1]["a"]
    np.testing.assert_array_equal(back, array, strict=False)
    assert back.shape == array.shape
    assert back.dtype == array.dtype.newbyteorder("=")


def test_bools_hold_zeros_and_ones_only(path):
    path.write_bytes(array_file("BOOL", [3], b"\x00\x02\xff"))
    back = modelfile.read(path)[1]["a"]
    assert back.view(np.uint8).tolist() == [0, 1, 1]


def test_arrays_come_back_sorted(path):
    names = [f"{7 * i % 40:02}" for i in range(40)]
    modelfile.write(path, {}, {name: np.zeros(1) for name in names})
    assert list(modelfile.read(path)[1]) == sorted(names)


def test_the_same_content_makes_the_same_bytes(path):
    arrays = some_arrays()
    modelfile.write(path, HEADER, arrays)
    first = path.read_bytes()
    modelfile.write(path, HEADER, dict(reversed(arrays.items())))
    assert path.read_bytes() == first


def test_the_bytes_are_as_documented(path):
    modelfile.write(path, {"a": [1.5]}, {"x": np.array([1, 2], np.int32)})
    data = path.read_bytes()
    magic, version, digest, length = START.unpack(data[:52])
    payload = data[52:]
    assert (magic, version) == (b"MOTLEYGP", modelfile.FORMAT_VERSION) == (magic, 1)
    assert digest == hashlib.sha256(payload).digest()
    assert length == len(payload)
    end = 8 + int.from_bytes(payload[:8], "little")
    assert json.loads(payload[8:end]) == {
        "__metadata__": {"header": '{"a":[1.5]}'},
        "x": {"dtype": "I32", "shape": [2], "data_offsets": [0, 8]},
    }
    assert payload[end:] == bytes([1, 0, 0, 0, 2, 0, 0, 0])


def test_safetensors_itself_reads_the_payload(path):
    modelfile.write(path, HEADER, some_arrays())
    inner = path.with_suffix(".safetensors")
    inner.write_bytes(path.read_bytes()[52:])
    with safetensors.safe_open(inner, framework="np") as file:
        assert json.loads(file.metadata()["header"]) == HEADER
        assert set(file.keys()) == set(some_arrays())


def test_a_path_may_be_text_and_a_header_any_mapping(path):
    header = collections.ChainMap({"a": 1}, {"b": collections.OrderedDict(c=2)})
    modelfile.write(str(path), header, {})
    assert modelfile.read(str(path)) == ({"a": 1, "b": {"c": 2}}, {})


# What cannot be kept is refused before anything is written.


def nested(depth: int) -> dict[str, Any]:
    """A dict with `depth` dicts inside one another, itself included."""
    value: dict[str, Any] = {}
    for _ in range(depth - 1):
        value = {"a": value}
    return value


def circle() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["a"] = value
    return value


@pytest.mark.parametrize(
    ("header", "where", "rule"),
    [
        ({"a": [0, {"b": np.nan}]}, "header['a'][1]['b']", "be finite; got nan"),
        ({"a": {"b": -np.inf}}, "header['a']['b']", "be finite; got -inf"),
        ({"a": np.float64("nan")}, "header['a']", "be finite"),
        ({"a": [1, (2, 3)]}, "header['a'][1]", "<class 'tuple'>"),
        ({"a": b"text"}, "header['a']", "<class 'bytes'>"),
        ({"a": np.float32(1)}, "header['a']", "<class 'numpy.float32'>"),
        ({"a": np.arange(2)}, "header['a']", "<class 'numpy.ndarray'>"),
        ({"a": {1: 2}}, "header['a'][1]", "key of valid Unicode text; got 1"),
        ({"a": {None: 2}}, "header['a'][None]", "key of valid Unicode text"),
        ({"a": {"\ud83d": 1}}, "header['a']['\\ud83d']", "key of valid Unicode"),
        ({"a": ["\ud83d\ude00"]}, "header['a'][0]", "be valid Unicode"),
        ({"a": 2**1024}, "header['a']", "have at most 1024 bits; got 1025"),
        ({"a": -(10**9999)}, "header['a']", "have at most 1024 bits"),
        (nested(65), "header" + "['a']" * 64, "be nested at most 64 deep"),
        (circle(), "header" + "['a']" * 64, "be nested at most 64 deep"),
    ],
)
def test_a_header_that_json_does_not_keep_is_refused(path, header, where, rule):
    with pytest.raises(ValueError, match=re.escape(f"`{where}` must")) as caught:
        modelfile.write(path, header, {})
    assert rule in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list(path.parent.iterdir()) == []


def test_a_header_at_the_limits_is_kept(path):
    header = {"a": 2**1024 - 1, "b": -(2**1024 - 1), "c": nested(63)}
    modelfile.write(path, header, {})
    assert modelfile.read(path)[0] == header


@pytest.mark.parametrize(
    ("name", "array", "rule"),
    [
        ("a", np.zeros(2, complex), "array 'a' must be one of .*; got complex128"),
        ("a", np.zeros(2, np.float16), "array 'a' must be one of .*; got float16"),
        ("a", np.array(["x"]), "array 'a' must be one of .*; got str"),
        ("a", np.array([{}]), "array 'a' must be one of .*; got object"),
        ("a", np.zeros(2, "f8,i4"), "array 'a' must be one of .*; got void"),
        ("a", np.zeros(2, "M8[s]"), "array 'a' must be one of .*; got datetime64"),
        ("__metadata__", np.zeros(2), "must not be named '__metadata__'"),
        ("\ud800", np.zeros(2), r"must be valid Unicode; got '\\ud800'"),
    ],
)
def test_an_array_that_the_file_cannot_hold_is_refused(path, name, array, rule):
    with pytest.raises(ValueError, match=rule):
        modelfile.write(path, {}, {name: array})
    assert list(path.parent.iterdir()) == []


def test_a_table_too_large_to_read_is_not_written(path, no_sync):
    room = modelfile.MAX_TABLE - 100
    modelfile.write(path, {"a": "x" * room}, {})
    whole = modelfile.read(path)
    with pytest.raises(ValueError, match="`header` and the names of `arrays` must fit"):
        modelfile.write(path, {"a": "x" * (room + 100)}, {})
    assert same(modelfile.read(path), whole)


# What is not a whole file is refused.


def flip(data: bytearray, rng: np.random.Generator) -> bytearray:
    for _ in range(rng.integers(1, 4)):
        data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
    return data


def overwrite(data: bytearray, rng: np.random.Generator) -> bytearray:
    start, stop = a_slice(data, rng)
    data[start:stop] = rng.bytes(stop - start)
    return data


def truncate(data: bytearray, rng: np.random.Generator) -> bytearray:
    return data[: rng.integers(len(data))]


def extend(data: bytearray, rng: np.random.Generator) -> bytearray:
    return data + rng.bytes(int(rng.integers(1, 100)))


def swap(data: bytearray, rng: np.random.Generator) -> bytearray:
    start, stop = a_slice(data, rng)
    middle = int(rng.integers(start, stop))
    return data[:start] + data[middle:stop] + data[start:middle] + data[stop:]


def duplicate(data: bytearray, rng: np.random.Generator) -> bytearray:
    start, stop = a_slice(data, rng)
    return data[:stop] + data[start:stop] + data[stop:]


def zero(data: bytearray, rng: np.random.Generator) -> bytearray:
    start, stop = a_slice(data, rng)
    data[start:stop] = bytes(stop - start)
    return data


def a_slice(data: bytearray, rng: np.random.Generator) -> tuple[int, int]:
    """Where a run of bytes starts and stops; a short one as likely as a long one."""
    start = int(rng.integers(len(data)))
    most = len(data) - start
    return start, start + int(np.ceil(most ** rng.random()))


def mutations(data: bytes, rng: np.random.Generator, count: int) -> Iterator[bytes]:
    """`count` files like `data`, each with something wrong, mostly."""
    ways = [flip, overwrite, truncate, extend, swap, duplicate, zero]
    for i in range(count):
        yield bytes(ways[i % len(ways)](bytearray(data), rng))


NUMBERS = [
    *["0", "1", "-1", "7", "1.5", "1e400", "NaN", "null", "[]", '"x"', "9" * 5000],
    *[str(2**power + shift) for power in (31, 32, 61, 63, 64) for shift in (-1, 0)],
]
KINDS = [*modelfile._TYPES, "F16", "BF16", "F4", "F8_E5M2", "I8", "I16", "C64", "X"]


def table_mutations(
    payload: bytes, rng: np.random.Generator, count: int
) -> Iterator[bytes]:
    """Payloads whose table is still JSON, mostly, but no longer fits the arrays."""
    end = 8 + int.from_bytes(payload[:8], "little")
    table, data = payload[8:end].decode(), payload[end:]
    places = {
        pattern: list(re.finditer(pattern, table))
        for pattern in (r"(?<=[\[,])\d+", r'(?<="dtype":")\w+', r'"\w+":', r"[\[\]{},]")
    }
    for i in range(count):
        found = list(places.values())[i % len(places)]
        place = found[rng.integers(len(found))]
        others = {0: NUMBERS, 1: KINDS}.get(i % len(places), [f[0] for f in found])
        new = table[: place.start()] + str(rng.choice(others)) + table[place.end() :]
        yield len(new.encode()).to_bytes(8, "little") + new.encode() + data
    assert all(places.values())


def damaged(path: Path, rng: np.random.Generator, count: int) -> None:
    """Every changed file is refused, and every unchanged one reads the same."""
    content = (HEADER, some_arrays())
    modelfile.write(path, *content)
    data = path.read_bytes()
    changed = 0
    for mutant in mutations(data, rng, count):
        path.write_bytes(mutant)
        if mutant == data:
            assert same(modelfile.read(path), content)
            continue
        changed += 1
        with pytest.raises(modelfile.ModelFileError) as caught:
            modelfile.read(path)
        assert repr(str(path)) in str(caught.value)
        assert "\n" not in str(caught.value)
    assert changed > 0.9 * count


def test_damaged_files_are_refused(path, rng):
    damaged(path, rng, 300)


@pytest.mark.slow
def test_many_damaged_files_are_refused(path, rng):
    damaged(path, rng, 10_000)


def forgeries(path: Path, rng: np.random.Generator, count: int) -> Iterator[bytes]:
    """Files with a right checksum over a damaged payload."""
    arrays = {name: a for name, a in some_arrays().items() if a.size < 3}
    modelfile.write(path, HEADER, arrays | {"a": np.zeros((2, 3), np.float32)})
    payload = path.read_bytes()[START.size :]
    for mutant in mutations(payload, rng, count // 2):
        yield sealed(mutant)
    for mutant in table_mutations(payload, rng, count - count // 2):
        yield sealed(mutant)


def attacked(path: Path, rng: np.random.Generator, count: int) -> None:
    """The parser refuses a forgery or gives a content that can be kept and read."""
    outcomes = collections.Counter()
    for data in forgeries(path, rng, count):
        path.write_bytes(data)
        began = time.process_time()
        try:
            content = modelfile.read(path)
        except modelfile.ModelFileError as error:
            assert "\n" not in str(error)
            assert len(str(error)) < 200 + len(str(path))
            outcomes["refused"] += 1
        else:
            modelfile.write(path, *content)
            assert same(modelfile.read(path), content)
            outcomes["read"] += 1
        assert time.process_time() - began < 1
    assert min(outcomes["refused"], outcomes["read"]) > count / 20, outcomes


@pytest.mark.usefixtures("no_sync")
def test_forged_payloads_are_refused_or_read(path, rng):
    attacked(path, rng, 300)


@pytest.mark.slow
@pytest.mark.usefixtures("no_sync")
def test_many_forged_payloads_are_refused_or_read(path, rng):
    attacked(path, rng, 3_000)


EMPTY_HEADER = '"__metadata__":{"header":"{}"}'
FORGED = {
    "no payload": sealed(b""),
    "a short payload": sealed(b"\x00" * 7),
    "a table longer than the payload": sealed(b"\xff" * 7 + b"\x00{}"),
    "a table of the largest length": sealed(b"\xff" * 8 + b"{}"),
    "a table that is not UTF-8": table_file(b'{"\xff":1}'),
    "a table that is not JSON": table_file("{"),
    "a table in UTF-16": table_file(
        '{"__metadata__":{"header":"{}"}}'.encode("utf-16")
    ),
    "a table that is a list": table_file("[]"),
    "a table nested for ever": table_file("[" * 1_000_000),
    "a table with a deep field": table_file(
        f'{{{EMPTY_HEADER},"a":{{"dtype":"U8","shape":[0],"data_offsets":[0,0],"x":'
        f"{'[' * 500}{']' * 500}}}}}"
    ),
    "no metadata": table_file("{}"),
    "metadata of null": table_file('{"__metadata__":null}'),
    "metadata of numbers": table_file('{"__metadata__":{"header":1}}'),
    "metadata without a header": table_file('{"__metadata__":{"Header":"{}"}}'),
    "two metadata": table_file(f"{{{EMPTY_HEADER},{EMPTY_HEADER}}}"),
    "data that no array has": table_file(f"{{{EMPTY_HEADER}}}", b"12345678"),
    "a header that is no text": table_file('{"__metadata__":{"header":{}}}'),
    "a header that is empty": header_file(""),
    "a header that is a list": header_file("[]"),
    "a header that is null": header_file("null"),
    "a header with NaN": header_file('{"a":NaN}'),
    "a header with an infinity": header_file('{"a":[-Infinity]}'),
    "a header with a float too large": header_file('{"a":1e999}'),
    "a header with half a character": header_file('{"a":"\\ud800"}'),
    "a header with half a character in a key": header_file('{"\\ud800":1}'),
    "a header with bytes after its end": header_file("{} {}"),
    "a header with an integer too large": header_file(f'{{"a":{2**1024}}}'),
    "a header with a million digits": header_file(f'{{"a":{"9" * 1_000_000}}}'),
    "a header too deep": header_file('{"a":' * 65 + "1" + "}" * 65),
    "a header nested for ever": header_file('{"a":' + "[" * 1_000_000),
    "an array of halves": array_file("F16", [1], b"ab"),
    "an array of a type that NumPy has not": array_file("BF16", [1], b"ab"),
    "an array of half bytes": array_file("F4", [2], b"a"),
    "an array of no type": array_file("O", [1], b"12345678"),
    "an array with a negative side": array_file("U8", [-1], b"a"),
    "an array with a side too long": array_file("U8", [0, 2**63], b""),
    "an array with the longest side": array_file("U8", [2**64 - 1, 0], b""),
    "an array with a side of more bits": array_file("U8", [0, 2**64], b""),
    "an array with too many sides": array_file("U8", [1] * 65, b"a"),
    "an array with far too many sides": array_file("U8", [1] * 20_000, b"a"),
    "an array larger than its data": array_file("U8", [2**40], b"a"),
    "an array past all memory": array_file("F64", [2**31, 2**31], b"a"),
    "an array whose size overflows": array_file("F64", [2**32, 2**32, 2**3], b""),
    "two arrays in one place": table_file(
        f'{{{EMPTY_HEADER},"a":{{"dtype":"U8","shape":[1],"data_offsets":[0,1]}},'
        f'"b":{{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}}}',
        b"1",
    ),
    "an array past the end": table_file(
        f'{{{EMPTY_HEADER},"a":{{"dtype":"U8","shape":[{2**40}],'
        f'"data_offsets":[0,{2**40}]}}}}',
        b"1",
    ),
}


@pytest.mark.parametrize("what", FORGED)
def test_forged_files_are_refused(path, what):
    path.write_bytes(FORGED[what])
    began = time.process_time()
    with pytest.raises(modelfile.ModelFileError, match="its checksum is right"):
        modelfile.read(path)
    assert time.process_time() - began < 1


def test_digits_are_limited_even_where_python_does_not(path):
    path.write_bytes(FORGED["a header with a million digits"])
    old = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        with time_limit(5), pytest.raises(modelfile.ModelFileError):
            modelfile.read(path)
    finally:
        sys.set_int_max_str_digits(old)


# The module alone, without the package and so without JAX.
CHILD = """
import importlib.util, os, sys
import numpy as np
spec = importlib.util.spec_from_file_location("modelfile", sys.argv[1])
modelfile = importlib.util.module_from_spec(spec)
spec.loader.exec_module(modelfile)
"""


def child(code: str, *arguments: str | Path, **options: Any) -> subprocess.Popen:
    """A process that runs `code` with the module."""
    return subprocess.Popen(
        [sys.executable, "-c", CHILD + code, modelfile.__file__, *arguments],
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )


READ_IN_LITTLE_MEMORY = """
import pathlib, resource, time
room = int(sys.argv[3])
pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
limit = pages * resource.getpagesize() + room
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for file in sorted(pathlib.Path(sys.argv[2]).iterdir()):
    began = time.process_time()
    try:
        modelfile.read(file)
        outcome = "read"
    except modelfile.ModelFileError:
        outcome = "refused"
    print(file.name, outcome, time.process_time() - began)
"""


def read_in_little_memory(
    folder: Path, room: int
) -> dict[str, tuple[str, float]] | None:
    """What came of each file of a folder and how long it took; None on a crash."""
    process = child(READ_IN_LITTLE_MEMORY, folder, str(room), stderr=subprocess.DEVNULL)
    output, _ = process.communicate(timeout=120)
    if process.returncode != 0:
        return None
    lines = [line.split() for line in output.splitlines()]
    return {name: (outcome, float(took)) for name, outcome, took in lines}


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit on memory")
def test_small_forgeries_take_little_memory(path, rng, tmp_path):
    small = [data for data in FORGED.values() if len(data) < 100_000]
    files = [*forgeries(tmp_path / "made", rng, 200), *small]
    for i, data in enumerate(files):
        (path.parent / f"{i}").write_bytes(data)
    outcomes = read_in_little_memory(path.parent, 16 * 2**20)
    assert outcomes is not None and len(outcomes) == len(files)
    assert max(took for _, took in outcomes.values()) < 1


def full_tables() -> dict[str, bytes]:
    """Tables as long as they may be, of what becomes the most in memory."""
    room = modelfile.MAX_TABLE - 100
    lists = "[" + "[]," * ((room - 20) // 3) + "0]"
    entry = '"%08x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'
    entries = [entry % i for i in range(room // len(entry % 0 + ","))]
    return {
        "lists": header_file(f'{{"":{lists}}}'),
        "entries": table_file(f"{{{EMPTY_HEADER},{','.join(entries)}}}"),
        "sides": array_file("U8", [1] * (room // 3 - 50), b"1"),
    }


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit on memory")
def test_full_tables_take_bounded_memory(path):
    for name, data in full_tables().items():
        (path.parent / name).write_bytes(data)
        assert len(data) > 0.95 * modelfile.MAX_TABLE
    outcomes = read_in_little_memory(path.parent, 192 * 2**20)
    assert outcomes is not None
    assert {name: outcome for name, (outcome, _) in outcomes.items()} == {
        "lists": "read",
        "entries": "read",
        "sides": "refused",
    }
    assert max(took for _, took in outcomes.values()) < 10


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit on memory")
def test_that_limit_sees_a_large_file(path):
    path.write_bytes(array_file("U8", [2**25], bytes(2**25)))
    assert read_in_little_memory(path.parent, 16 * 2**20) is None
    assert read_in_little_memory(path.parent, 256 * 2**20) is not None


def test_a_table_over_the_limit_is_refused(path):
    whole = header_file('{"a":"' + "x" * (modelfile.MAX_TABLE - 100) + '"}')
    path.write_bytes(whole)
    assert len(modelfile.read(path)[0]["a"]) == modelfile.MAX_TABLE - 100
    path.write_bytes(header_file('{"a":"' + "x" * modelfile.MAX_TABLE + '"}'))
    with pytest.raises(modelfile.ModelFileError):
        modelfile.read(path)


# Each refusal says what is wrong.


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: b"", "is not a MotleyGP file"),
        (lambda data: data[:5], "is not a MotleyGP file"),
        (lambda data: b"PK" + data[2:], "is not a MotleyGP file"),
        (lambda data: data[:8], "is cut short: .* 52 bytes; got 8"),
        (lambda data: data[:51], "is cut short: .* 52 bytes; got 51"),
        (lambda data: data[:52], r"is cut short: .* must have \d\d+ bytes; got 0"),
        (lambda data: data[:-1], "is cut short"),
        (lambda data: data + b"\x00", "is too long"),
        (lambda data: data[:-1] + b"?", "is damaged: its checksum does not fit"),
        (lambda data: sealed(data[52:], version=0), "there is no format 0"),
        (
            lambda data: sealed(data[52:], version=2),
            r"was written by a newer version of MotleyGP \(format 2\); "
            r"this one reads up to format 1\.$",
        ),
        (
            lambda data: data[:8] + b"\x02\x00\x00\x00" + b"?" * 60,
            r"was written by a newer version of MotleyGP \(format 2\); "
            r"this one reads up to format 1\.$",
        ),
    ],
)
def test_a_refusal_names_the_file_and_what_is_wrong(path, change, message):
    modelfile.write(path, HEADER, some_arrays())
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(
        modelfile.ModelFileError, match=re.escape(repr(str(path))) + " .*" + message
    ):
        modelfile.read(path)


@pytest.mark.parametrize("length", [2**40, 2**62, 2**63, 2**64 - 1])
def test_a_length_that_lies_is_not_read(path, length):
    path.write_bytes(START.pack(b"MOTLEYGP", 1, bytes(32), length) + b"{}")
    with pytest.raises(modelfile.ModelFileError, match=f"must have {length} bytes"):
        modelfile.read(path)


def test_nothing_is_parsed_before_the_checksum(path, monkeypatch):
    def parse(*_: object, **__: object) -> None:
        raise AssertionError("parsed")

    modelfile.write(path, HEADER, some_arrays())
    data = bytearray(path.read_bytes())
    monkeypatch.setattr(json, "loads", parse)
    monkeypatch.setattr(safetensors, "deserialize", parse)
    with pytest.raises(AssertionError, match="parsed"):
        modelfile.read(path)
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(modelfile.ModelFileError, match="its checksum does not fit"):
        modelfile.read(path)


def test_what_cannot_be_opened_is_the_systems_error(path):
    with pytest.raises(FileNotFoundError, match=r"a\.model"):
        modelfile.read(path)
    with pytest.raises(IsADirectoryError, match="models"):
        modelfile.read(path.parent)
    path.symlink_to(path)
    with pytest.raises(OSError, match=r"a\.model") as caught:
        modelfile.read(path)
    assert caught.value.errno == errno.ELOOP


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads and writes everything")
def test_what_is_forbidden_is_the_systems_error(path):
    modelfile.write(path, {}, {})
    path.chmod(0)
    with pytest.raises(PermissionError, match=r"a\.model"):
        modelfile.read(path)
    path.parent.chmod(0o500)
    with pytest.raises(PermissionError, match=r"b\.model"):
        modelfile.write(path.with_name("b.model"), {}, {})
    path.parent.chmod(0o700)


def test_a_pipe_is_refused_at_once(path):
    os.mkfifo(path)
    with time_limit(10), pytest.raises(modelfile.ModelFileError, match="regular file"):
        modelfile.read(path)


# A write is whole or has not been.


class FailingFile:
    """A file of which the `count`-th write gets half of its bytes out and fails."""

    def __init__(self, file: Any, count: int, error: BaseException) -> None:
        self.file, self.count, self.error = file, count, error

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def __enter__(self) -> "FailingFile":
        self.file.__enter__()
        return self

    def __exit__(self, *problem: Any) -> None:
        self.file.__exit__(*problem)

    def write(self, data: bytes) -> int:
        self.count -= 1
        if self.count == 0:
            self.file.write(data[: len(data) // 2])
            self.file.flush()
            raise self.error
        return self.file.write(data)


def raising(error: BaseException) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def break_write(
    monkeypatch: pytest.MonkeyPatch, where: str, error: BaseException
) -> None:
    """Let `error` come from one step of a write."""
    if where in ("replace", "fsync"):
        monkeypatch.setattr(os, where, raising(error))
    elif where == "open":
        monkeypatch.setattr(modelfile, "open", raising(error), raising=False)
    else:
        count = {"first write": 1, "second write": 2}[where]

        def failing(*arguments: Any, **options: Any) -> FailingFile:
            return FailingFile(open(*arguments, **options), count, error)

        monkeypatch.setattr(modelfile, "open", failing, raising=False)


STEPS = ["open", "first write", "second write", "fsync", "replace"]


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("where", STEPS)
def test_a_full_disk_leaves_all_as_it_was(path, monkeypatch, where, there):
    if there:
        modelfile.write(path, HEADER, some_arrays())
    before = {p: p.read_bytes() for p in path.parent.iterdir()}
    break_write(monkeypatch, where, OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(OSError, match="No space left on device") as caught:
        modelfile.write(path, {}, {"a": np.ones(1000)})
    assert caught.value.errno == errno.ENOSPC
    assert repr(str(path)) in str(caught.value)
    monkeypatch.undo()
    assert {p: p.read_bytes() for p in path.parent.iterdir()} == before


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, SystemExit])
@pytest.mark.parametrize("where", STEPS)
def test_an_interrupt_leaves_all_as_it_was(path, monkeypatch, where, error):
    modelfile.write(path, HEADER, some_arrays())
    before = path.read_bytes()
    break_write(monkeypatch, where, error())
    with pytest.raises(error):
        modelfile.write(path, {}, {"a": np.ones(1000)})
    monkeypatch.undo()
    assert [p.read_bytes() for p in path.parent.iterdir()] == [before]


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


def test_the_disk_has_the_file_before_it_takes_its_place(path, monkeypatch):
    steps = []
    fsync, replace = os.fsync, os.replace

    def noted_fsync(descriptor: int) -> None:
        status = os.fstat(descriptor)
        kind = "folder" if stat.S_ISDIR(status.st_mode) else status.st_size
        steps.append(("fsync", kind))
        fsync(descriptor)

    def noted_replace(old: str, new: str) -> None:
        steps.append(("replace", os.path.dirname(old) == os.path.dirname(new)))
        replace(old, new)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "replace", noted_replace)
    modelfile.write(path, HEADER, some_arrays())
    size = path.stat().st_size
    assert steps == [("fsync", size), ("replace", True), ("fsync", "folder")]


def test_a_folder_that_cannot_be_synced_is_no_error(path, monkeypatch):
    fsync = os.fsync

    def files_only(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", files_only)
    modelfile.write(path, HEADER, {})
    assert modelfile.read(path) == (HEADER, {})


def test_what_cannot_be_written_is_the_systems_error(path):
    with pytest.raises(FileNotFoundError, match=r"nowhere/b\.model'$"):
        modelfile.write(path.parent / "nowhere" / "b.model", {}, {})
    with pytest.raises(IsADirectoryError, match=r"models'$"):
        modelfile.write(path.parent, {}, {})
    path.write_bytes(b"file")
    with pytest.raises(NotADirectoryError, match=r"a\.model/b\.model'$"):
        modelfile.write(path / "b.model", {}, {})
    with pytest.raises(OSError, match=r"xxx'$") as caught:
        modelfile.write(path.with_name("x" * 256), {}, {})
    assert caught.value.errno == errno.ENAMETOOLONG
    assert [p.name for p in path.parent.iterdir()] == ["a.model"]
    assert [p.name for p in path.parent.parent.iterdir()] == ["models"]


@pytest.mark.skipif(sys.platform != "linux", reason="needs a folder closed to all")
def test_a_folder_closed_to_all_is_the_systems_error():
    with pytest.raises(OSError, match=r"'/sys/a\.model'$") as caught:
        modelfile.write("/sys/a.model", {}, {})
    assert caught.value.errno in (errno.EACCES, errno.EPERM, errno.EROFS)


def test_a_name_may_be_as_long_as_the_system_lets_it(path):
    long = path.with_name("x" * 255)
    modelfile.write(long, HEADER, {})
    assert modelfile.read(long) == (HEADER, {})


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o027, 0o077])
def test_permissions_are_those_of_a_plain_open(path, mask):
    plain = path.with_name("plain")
    old = os.umask(mask)
    try:
        modelfile.write(path, {}, {})
        plain.write_bytes(b"")
    finally:
        os.umask(old)
    assert path.stat().st_mode == plain.stat().st_mode


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
def test_a_file_that_was_there_keeps_its_permissions(path, mode):
    path.write_bytes(b"")
    path.chmod(mode)
    modelfile.write(path, {}, {})
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_private_file_is_private_from_the_start(path, monkeypatch):
    path.write_bytes(b"")
    path.chmod(0o600)
    modes = []

    def noted(name: str, mode: int) -> None:
        modes.append(stat.S_IMODE(os.stat(name).st_mode))

    monkeypatch.setattr(os, "chmod", noted)
    modelfile.write(path, {}, {})
    assert modes == [0o600]


def test_a_link_stays_and_its_file_is_replaced(path, tmp_path):
    path.symlink_to(tmp_path / "target.model")
    for header in ({"a": 1}, {"a": 2}):
        modelfile.write(path, header, {})
        assert path.is_symlink() and not (tmp_path / "target.model").is_symlink()
        assert modelfile.read(tmp_path / "target.model") == (header, {})
        assert list(path.parent.iterdir()) == [path]


def test_only_a_regular_file_is_replaced(path):
    os.mkfifo(path)
    with (
        time_limit(10),
        pytest.raises(OSError, match=r"Not a regular file: .*a\.model"),
    ):
        modelfile.write(path, {}, {})
    assert list(path.parent.iterdir()) == [path] and path.is_fifo()


WRITE_FOR_EVER = """
i = 0
while True:
    i += 1
    modelfile.write(sys.argv[2], {"i": i}, {"a": np.full(50_000, i)})
    print(i, flush=True)
"""


def is_whole(path: Path) -> bool:
    header, arrays = modelfile.read(path)
    return bool((arrays["a"] == header["i"]).all()) and arrays["a"].size > 0


def kill_writers(path: Path, rng: np.random.Generator, count: int) -> None:
    """End a process that writes at some moment; the file is whole, and stays so."""
    for _ in range(count):
        with child(WRITE_FOR_EVER, path) as process:
            assert process.stdout is not None and process.stdout.readline() == "1\n"
            time.sleep(0.1 * rng.random())
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert process.returncode == -signal.SIGKILL
        assert is_whole(path)
        modelfile.write(path, {"i": -1}, {"a": np.full(7, -1)})
        assert is_whole(path) and modelfile.read(path)[0] == {"i": -1}


def test_a_killed_writer_leaves_a_whole_file(path, rng):
    kill_writers(path, rng, 5)


@pytest.mark.slow
def test_many_killed_writers_leave_whole_files(path, rng):
    kill_writers(path, rng, 20)


STOP_HALFWAY = """
import builtins, time
def halting(*arguments, **options):
    file = builtins.open(*arguments, **options)
    def write(data):
        if len(data) > 1000:
            file.raw.write(data[:1000])
            print("halfway", flush=True)
            time.sleep(600)
        return file.raw.write(data)
    class Halting:
        __enter__ = lambda self: self
        __exit__ = lambda self, *problem: file.close()
        __getattr__ = lambda self, name: getattr(file, name)
    halting = Halting()
    halting.write = write
    return halting
modelfile.open = halting
modelfile.write(sys.argv[2], {"i": 2}, {"a": np.full(50_000, 2)})
"""


def test_a_writer_killed_halfway_leaves_the_old_file_and_no_hindrance(path):
    modelfile.write(path, {"i": 1}, {"a": np.full(5, 1)})
    before = path.read_bytes()
    with child(STOP_HALFWAY, path) as process:
        assert process.stdout is not None and process.stdout.readline() == "halfway\n"
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert path.read_bytes() == before
    (left,) = [p for p in path.parent.iterdir() if p != path]
    assert left.name.startswith(".motleygp-") and left.stat().st_size > 1000
    modelfile.write(path, {"i": 3}, {"a": np.full(5, 3)})
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
        assert is_whole(path)
        seen.add(modelfile.read(path)[0]["i"])
    for writer in writers:
        writer.communicate()
    assert [writer.returncode for writer in writers] == [0, 0]
    assert is_whole(path)
    assert seen >= {1, 2}
    assert list(path.parent.iterdir()) == [path]
