"""Downloads of data sets, from a server on this machine."""

import dataclasses
import http.client
import http.server
import io
import json
import socket
import threading
import urllib.request
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import motleygp_cli as cli
from motleygp import datasets
from motleygp.datasets import _fetch, _motions, _raw, _registry
from motleygp_cli.errors import FAILED, GOOD


@pytest.fixture
def server(monkeypatch):
    """A server with its address, its files by path, and the paths it was asked for.

    A file is its bytes, the length to claim with them, or the address of another.
    """
    found = SimpleNamespace(files={}, asked=[])

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            found.asked.append(self.path)
            file = found.files.get(self.path)
            if file is None:
                self.send_error(404)
            elif isinstance(file, str):
                self.send_response(302)
                self.send_header("Location", file)
                self.end_headers()
            else:
                length, body = file if isinstance(file, tuple) else (len(file), file)
                self.send_response(200)
                if length is not None:
                    self.send_header("Content-Length", str(length))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any):
            pass

    monkeypatch.setenv("no_proxy", "*")
    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.address = f"http://127.0.0.1:{running.server_address[1]}"
    thread = threading.Thread(target=running.serve_forever, args=(0.01,))
    thread.start()
    yield found
    running.shutdown()
    running.server_close()
    thread.join()


@pytest.fixture
def naval(server, monkeypatch, rng):
    """The bytes of a file of NAVAL's form, which the server has and fits."""
    text = io.BytesIO()
    np.savetxt(text, rng.random((12, 18)))
    server.files["/naval.txt"] = text.getvalue()
    values = np.loadtxt(io.BytesIO(text.getvalue()))
    expect(monkeypatch, "naval", {"values": values})
    return text.getvalue()


def expect(monkeypatch, name, arrays):
    """Let the registry have the checksum of these arrays."""
    entry = _registry.REGISTRY[name]
    changed = dataclasses.replace(entry, checksum=_raw.checksum(arrays))
    monkeypatch.setitem(_registry.REGISTRY, name, changed)


def fetch(server, folder, name="naval"):
    return datasets.fetch(name, data_dir=folder, address=server.address, progress=False)


def left(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def test_a_file_comes_once(server, naval, tmp_path):
    folder = tmp_path / "data"
    assert fetch(server, folder) == (folder / "naval/naval.txt",)
    assert left(folder) == [folder / "naval/naval.txt"]
    assert (folder / "naval/naval.txt").read_bytes() == naval
    assert len(datasets.load("naval", data_dir=folder).x_train) == 9
    fetch(server, folder)
    assert server.asked == ["/naval.txt"]


def test_a_file_of_the_users_is_kept(server, naval, tmp_path):
    (tmp_path / "naval").mkdir()
    own = tmp_path / "naval/naval.txt"
    np.savetxt(own, np.zeros((3, 18)))
    before = own.read_bytes()
    with pytest.raises(ValueError, match=r"digest .*; got .*\(remove it to fetch it"):
        fetch(server, tmp_path)
    assert own.read_bytes() == before and not server.asked


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"1 2 3\n", "'naval.txt' must have 18 columns; got the shape"),
        (b"<html>", "'naval.txt' must hold numbers"),
        (b"", "cannot be read"),
        (b"1 " * 18, "must have arrays with the SHA-256 digest"),
    ],
)
# NumPy warns about an empty file.
@pytest.mark.filterwarnings("ignore:loadtxt")
def test_other_data_are_not_kept(server, naval, tmp_path, body, words):
    server.files["/naval.txt"] = body
    with pytest.raises(ValueError, match=words) as caught:
        fetch(server, tmp_path)
    assert "(nothing was kept)" in str(caught.value) and not left(tmp_path)


def test_a_download_that_ends_early_is_not_kept(server, naval, tmp_path):
    server.files["/naval.txt"] = (len(naval) + 9, naval)
    with pytest.raises(ConnectionError, match=r"'naval[.]txt' did not come from"):
        fetch(server, tmp_path)
    assert not left(tmp_path)


@pytest.mark.parametrize("said", [True, False])
def test_a_download_has_a_limit(server, naval, tmp_path, monkeypatch, said):
    monkeypatch.setattr(_fetch, "_MOST", 1000)
    server.files["/naval.txt"] = (len(naval) if said else None, naval)
    with pytest.raises(ConnectionError, match=r"at most 1000 are|more than 1000 bytes"):
        fetch(server, tmp_path)
    assert not left(tmp_path)


def test_an_absent_file_says_what_to_do(server, tmp_path):
    with pytest.raises(ConnectionError) as caught:
        fetch(server, tmp_path)
    assert str(caught.value).startswith(
        "'naval' cannot be fetched: 'naval.txt' did not come from "
        f"'{server.address}' (Not Found). By hand: put 'naval/naval.txt' into the "
        f"folder '{tmp_path}' (origin: UCI repository"
    )


def test_without_a_network_there_is_a_clear_word(tmp_path, monkeypatch):
    def none(*_, **__):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", none)
    monkeypatch.setenv("no_proxy", "*")
    with pytest.raises(ConnectionError, match=r"service not known\). By hand: put"):
        datasets.fetch("london", data_dir=tmp_path, progress=False)
    assert not left(tmp_path)


def test_an_interrupted_download_leaves_nothing(tmp_path, monkeypatch):
    def stop(url, place, progress):
        place.write_text("half")
        raise KeyboardInterrupt

    monkeypatch.setattr(_fetch, "_download", stop)
    with pytest.raises(KeyboardInterrupt):
        datasets.fetch("naval", data_dir=tmp_path)
    assert not left(tmp_path)


def test_only_https_is_followed(server, naval, tmp_path):
    server.files |= {"/there.txt": naval, "/naval.txt": f"{server.address}/there.txt"}
    fetch(server, tmp_path / "followed")
    for odd in ("http://data.test/naval.txt", "ftp://127.0.0.1/naval.txt"):
        server.files["/naval.txt"] = odd
        with pytest.raises(ConnectionError, match=f"points to '{odd}', which is not"):
            fetch(server, tmp_path / "refused")
    for odd in ("http://data.test", "http://127.0.0.1.test", "file:///tmp", "data"):
        with pytest.raises(ValueError, match="`address` must begin with https://; got"):
            datasets.fetch("naval", data_dir=tmp_path / "refused", address=odd)
    assert not (tmp_path / "refused").exists()


def test_a_secure_address_does_not_send_on_to_this_machine():
    request = urllib.request.Request("https://data.test/naval.txt")
    rest = (io.BytesIO(), 302, "", http.client.HTTPMessage())
    with pytest.raises(OSError, match="which is not https"):
        _fetch._SecureRedirects().redirect_request(
            request, *rest, "http://127.0.0.1/naval.txt"
        )


def test_some_sets_cannot_be_fetched(tmp_path, monkeypatch):
    monkeypatch.delenv("MOTLEYGP_DATA", raising=False)
    with pytest.raises(ValueError, match="'t1' is drawn by `load`: there is nothing"):
        datasets.fetch("t1", data_dir=tmp_path)
    with pytest.raises(ValueError, match=r"'human' needs a folder .*'human-synthetic'"):
        datasets.fetch("human")
    for name in datasets.names():
        known = datasets.info(name)
        if known.files and known.address is None:
            words = f"{name!r} has no public address.*By hand: put '{known.files[0]}'"
            with pytest.raises(ValueError, match=words):
                datasets.fetch(name, data_dir=tmp_path)


def test_a_set_of_two_files_comes_whole_or_not_at_all(
    server, tmp_path, monkeypatch, rng
):
    columns, tables = ("Xloc", "Yloc", *_raw.METALS), {}
    for name, rows in (("jura.pred.csv", 8), ("jura.val.csv", 4)):
        tables[name] = pd.DataFrame(rng.random((rows, 9)), columns=list(columns))
    values = pd.concat(tables.values()).to_numpy()
    expect(monkeypatch, "jura", {"X": values[:, :2], "Y": values[:, 2:]})
    first, second = (f"/{name}" for name in tables)
    server.files[first] = tables["jura.pred.csv"].to_csv(index=False).encode()
    with pytest.raises(ConnectionError, match=r"'jura.val.csv' did not come"):
        fetch(server, tmp_path, "jura")
    assert not left(tmp_path)
    server.files[second] = tables["jura.val.csv"].to_csv(index=False).encode()
    assert len(fetch(server, tmp_path, "jura")) == len(left(tmp_path)) == 2
    assert len(datasets.load("jura", data_dir=tmp_path).x_train) == 9


BONES = {
    **{"root": 6, "lowerback": 3, "upperback": 3, "thorax": 3, "lowerneck": 3},
    **{"upperneck": 3, "head": 3, "rclavicle": 2, "rhumerus": 3, "rradius": 1},
    **{"rwrist": 1, "rhand": 2, "rfingers": 1, "rthumb": 2, "lclavicle": 2},
    **{"lhumerus": 3, "lradius": 1, "lwrist": 1, "lhand": 2, "lfingers": 1},
    **{"lthumb": 2, "rfemur": 3, "rtibia": 1, "rfoot": 2, "rtoes": 1},
    **{"lfemur": 3, "ltibia": 1, "lfoot": 2, "ltoes": 1},
}


def motion(angles):
    """A file of CMU's: a header, then each frame's number and a line per bone."""
    lines = ["#!OML:ASF", ":FULLY-SPECIFIED", ":DEGREES"]
    for number, frame in enumerate(angles, start=1):
        numbers, lines = iter(frame.tolist()), [*lines, str(number)]
        for bone, count in BONES.items():
            lines.append(" ".join([bone, *(repr(next(numbers)) for _ in range(count))]))
    return "\n".join(lines).encode() + b"\n"


def test_motions_become_one_file(server, tmp_path, monkeypatch, rng):
    frames = [rng.normal(size=(n, sum(BONES.values()))) for n in (5, 7)]
    starts = dict(zip(BONES, np.cumsum([0, *BONES.values()]), strict=False))
    axes = {"femur": "xyz", "foot": "xz", "lclavicle": "yz"}
    picked = []
    for angle in _motions.ANGLES:
        bone, axis = angle.split(".r")
        named = axes.get(bone, axes.get(bone[1:], "xyz"))
        one = BONES[bone] == 1 or bone == "lhand"
        picked.append(starts[bone] + (0 if one else named.index(axis)))
    times = [np.linspace(0.0, n / 120.0, n) for n in (5, 7)]
    x = np.concatenate(times)[:, None]
    y = np.concatenate(frames)[:, picked]
    expect(
        monkeypatch, "mocap7", {"X": x, "Y": y, "channels": np.array(_motions.ANGLES)}
    )
    for name, angles in zip(("07_02.amc", "07_03.amc"), frames, strict=True):
        server.files[f"/{name}"] = motion(angles)
    fetch(server, tmp_path, "mocap7")
    assert left(tmp_path) == [tmp_path / "mocap/mocap7_paper.npz"]
    assert len(datasets.load("mocap7", data_dir=tmp_path).x_train) == 9


@pytest.mark.parametrize(
    "body", [b"", b"<html>\xff", b"1\nroot 0 0\n", b"1\nlfemur x\n"]
)
def test_motions_of_another_form_are_refused(server, tmp_path, body):
    server.files |= {"/07_02.amc": body, "/07_03.amc": body}
    with pytest.raises(
        ValueError, match=r"'mocap7' needs motions .*\(nothing was kept"
    ):
        fetch(server, tmp_path, "mocap7")
    assert not left(tmp_path)


def test_the_command_fetches(server, naval, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("MOTLEYGP_DATA", str(tmp_path))
    asked = ["datasets", "fetch", "naval", "--from", f"{server.address}/"]
    assert cli.main(asked) == GOOD
    path = tmp_path / "naval/naval.txt"
    told = capsys.readouterr()
    assert told.out == f"naval: {path}\n" and "naval.txt" in told.err
    assert cli.main([*asked, "--json", "--quiet"]) == GOOD
    told = capsys.readouterr()
    assert json.loads(told.out) == {"files": [str(path)]} and not told.err
    path.unlink()
    server.files.clear()
    assert cli.main([*asked, "--quiet"]) == FAILED
    said = capsys.readouterr().err
    assert said.startswith("motleygp: 'naval' cannot") and said.count("\n") == 1
    assert cli.main(["datasets", "naval", "-o", str(tmp_path / "n.csv")]) == FAILED
    assert "`motleygp datasets fetch naval` gets it" in capsys.readouterr().err
