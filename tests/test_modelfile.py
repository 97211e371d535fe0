"""The container of models: contents come back as they were, or are refused."""

import collections
import errno
import functools
import hashlib
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import safetensors
import safetensors.numpy

from motleygp.files import modelfile

DTYPES = ["f8", "f4", "i8", "i4", "u8", "u4", "u1", "?"]
HEADER = {
    "kind": "model",
    "größe": [1, 2.5, -0.0, 1e-320, 0.1, None, True, False],
    "nested": {"b": {"": [[], {}, "\x00\n\"\\'"]}, "a": "日本 😀"},
    "half a character": "\ud83d",
    "state": {"large": 2**127 + 1, "small": -(2**63)},
}


def some_arrays() -> dict[str, np.ndarray]:
    """Every type, and the values and shapes that are easiest to lose."""
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


def same(one: modelfile.Content, other: modelfile.Content) -> bool:
    """Whether two contents are equal to the bit, the order of the header included."""
    return (
        json.dumps(one[0]) == json.dumps(other[0])
        and one[1].keys() == other[1].keys()
        and all(
            a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
            for a, b in ((one[1][name], other[1][name]) for name in one[1])
        )
    )


@pytest.fixture
def path(tmp_path) -> Path:
    """The place of a file, in a folder with nothing else."""
    folder = tmp_path / "models"
    folder.mkdir()
    return folder / "a.model"


def mutations(data: bytes, rng: np.random.Generator, count: int) -> Iterator[bytes]:
    """`count` copies of `data`, almost all of them damaged."""
    for i in range(count):
        # Short runs of bytes are as likely as long ones.
        start = int(rng.integers(len(data)))
        stop = start + int(np.ceil((len(data) - start) ** rng.random()))
        before, run, after = data[:start], data[start:stop], data[stop:]
        middle = int(rng.integers(len(run)))
        flipped = bytes([run[0] ^ 1 << int(rng.integers(8))])
        yield [
            before + flipped + run[1:] + after,
            before + rng.bytes(len(run)) + after,
            before + bytes(len(run)) + after,
            before + run[middle:] + run[:middle] + after,
            before + run + run + after,
            before,
            data + run,
        ][i % 7]


# Round trips.


def test_everything_comes_back_as_it_was(path):
    modelfile.write(path, HEADER, some_arrays())
    header, arrays = modelfile.read(path)
    assert same((header, arrays), (HEADER, some_arrays()))
    assert [p.name for p in path.parent.iterdir()] == ["a.model"]
    for array in arrays.values():
        assert type(array) is np.ndarray and array.dtype.isnative
        assert array.flags.owndata and array.flags.writeable
        assert array.flags.c_contiguous and array.flags.aligned


@pytest.mark.parametrize("name", list(some_arrays()))
def test_an_array_comes_back_alone(path, name):
    content = {}, {name: some_arrays()[name]}
    modelfile.write(path, *content)
    assert same(modelfile.read(path), content)


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
        np.asfortranarray(np.arange(6, dtype=">u4").reshape(2, 3)),
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


def test_arrays_come_back_sorted(path):
    names = [f"{7 * i % 40:02}" for i in range(40)]
    modelfile.write(path, {}, {name: np.zeros(1) for name in names})
    assert list(modelfile.read(path)[1]) == sorted(names)


def test_the_same_content_makes_the_same_bytes(path):
    arrays = some_arrays()
    files = set()
    for _ in range(5):
        modelfile.write(path, HEADER, arrays)
        files.add(path.read_bytes())
        arrays = dict(reversed(arrays.items()))
    assert len(files) == 1


def test_the_bytes_are_as_documented(path):
    modelfile.write(path, {"a": [1.5]}, {"x": np.array([1, 2], np.int32)})
    data = path.read_bytes()
    numbers = bytes([1, 0, 0, 0, 2, 0, 0, 0])
    text = r'["{\"a\": [1.5]}", [["x", "int32", [2]]]]'
    end = 8 + int.from_bytes(data[:8], "little")
    assert json.loads(data[8:end]) == {
        "__metadata__": {
            "format": "motleygp",
            "version": "2",
            "header": '{"a": [1.5]}',
            "sha256": hashlib.sha256(text.encode() + numbers).hexdigest(),
        },
        "x": {"dtype": "I32", "shape": [2], "data_offsets": [0, 8]},
    }
    assert data[end:] == numbers and end % 8 == 0


def test_a_file_is_a_plain_safetensors_file(path):
    arrays = some_arrays()
    modelfile.write(path, HEADER, arrays)
    assert same(({}, safetensors.numpy.load_file(path)), ({}, arrays))
    with safetensors.safe_open(path, framework="numpy") as file:
        assert json.loads(file.metadata()["header"]) == HEADER


def test_a_path_may_be_text_and_a_header_any_mapping(path):
    header = collections.ChainMap({"a": (1, 2)}, {"b": collections.OrderedDict(c=2)})
    modelfile.write(str(path), header, {})
    assert modelfile.read(str(path)) == ({"a": [1, 2], "b": {"c": 2}}, {})


@pytest.mark.parametrize("name", ["x" * 255, "größe\n日本", os.fsdecode(b"\xff")])
def test_a_file_may_have_any_name(path, name):
    modelfile.write(path.with_name(name), HEADER, {})
    assert modelfile.read(path.with_name(name)) == (HEADER, {})


# Contents that would not come back are refused before the file is written.


DEEP = functools.reduce(lambda inner, _: {"a": inner}, range(100_000), {})


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ({"a": [0, {"b": np.nan}]}, "Out of range float"),
        ({"a": {"b": -np.inf}}, "Out of range float"),
        ({"a": b"text"}, "bytes"),
        ({"a": {1, 2}}, "set"),
        ({"a": np.float32(1)}, "float32"),
        ({"a": np.arange(2)}, "ndarray"),
        ({"a": [{1: 2}]}, "a key that is not a string"),
        ({"a": ({None: 2},)}, "a key that is not a string"),
        (DEEP, "recursion|overflow"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_header_that_json_cannot_hold_is_refused(path, header, reason):
    with pytest.raises(ValueError, match=f"^`header` must be .*({reason})") as caught:
        modelfile.write(path, header, {})
    assert "\n" not in str(caught.value)
    assert list(path.parent.iterdir()) == []


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
        ("\ud800", np.zeros(2), "surrogates not allowed"),
    ],
)
def test_an_array_that_the_file_cannot_hold_is_refused(path, name, array, rule):
    with pytest.raises(ValueError, match=rule):
        modelfile.write(path, {}, {name: array})
    assert list(path.parent.iterdir()) == []


def test_a_table_too_large_to_read_is_not_written(path):
    room = modelfile.MAX_TABLE - 200
    modelfile.write(path, {"a": "x" * room}, {})
    whole = modelfile.read(path)
    with pytest.raises(ValueError, match="`header` and the names of `arrays` must fit"):
        modelfile.write(path, {"a": "x" * (room + 200)}, {})
    assert same(modelfile.read(path), whole)


# Files that cannot be opened.


def test_a_file_that_cannot_be_opened_is_the_systems_error(path):
    with pytest.raises(FileNotFoundError, match=r"a\.model"):
        modelfile.read(path)
    path.symlink_to(path)
    with pytest.raises(OSError, match=r"a\.model") as caught:
        modelfile.read(path)
    assert caught.value.errno == errno.ELOOP


def test_a_file_that_cannot_be_written_is_the_systems_error(path):
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


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads and writes everything")
def test_a_forbidden_file_is_the_systems_error(path):
    modelfile.write(path, {}, {})
    path.chmod(0)
    with pytest.raises(PermissionError, match=r"a\.model"):
        modelfile.read(path)
    path.parent.chmod(0o500)
    with pytest.raises(PermissionError, match=r"b\.model"):
        modelfile.write(path.with_name("b.model"), {}, {})
    path.parent.chmod(0o700)


# Permissions and links.


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
def test_an_existing_file_keeps_its_permissions(path, mode):
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


def test_the_disk_has_the_file_before_it_takes_its_place(path, monkeypatch):
    steps, replace = [], os.replace

    def noted_fsync(descriptor: int) -> None:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            steps.append("folder")
            # Some systems cannot sync a folder, which is no error.
            raise OSError(errno.EINVAL, "Invalid argument")
        steps.append(status.st_size)

    def noted_replace(old: str, new: str) -> None:
        steps.append("replace")
        replace(old, new)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "replace", noted_replace)
    modelfile.write(path, HEADER, some_arrays())
    assert steps == [path.stat().st_size, "replace", "folder"]
    assert same(modelfile.read(path), (HEADER, some_arrays()))
