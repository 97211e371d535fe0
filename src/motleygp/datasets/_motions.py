"""CMU's motion files (.amc), and the one file that MOCAP7 makes of them."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

_FRAMES_PER_SECOND = 120.0
_LEG = ("femur.rx", "femur.ry", "femur.rz", "tibia.rx", "foot.rx", "foot.rz", "toes.rx")
_ROUND = ("lowerback", "upperback", "thorax", "lowerneck", "upperneck", "head")
# The paper's forty angles: channels 6 to 45 in the order of CMU's skeleton.
ANGLES = (
    *(f"{side}{angle}" for side in "lr" for angle in _LEG),
    *(f"{bone}.r{axis}" for bone in _ROUND for axis in "xyz"),
    *("lclavicle.ry", "lclavicle.rz"),
    *(f"lhumerus.r{axis}" for axis in "xyz"),
    *("lradius.rx", "lwrist.ry", "lhand.rx"),
)


def join(motions: Sequence[Path], file: Path) -> None:
    """Write motions as MOCAP7's file: times, which restart at 0 in each motion, angles
    and their names."""
    angles = [_angles(path) for path in motions]
    times = [
        np.linspace(0.0, len(frames) / _FRAMES_PER_SECOND, len(frames))
        for frames in angles
    ]
    np.savez(
        file,
        X=np.concatenate(times)[:, None],
        Y=np.concatenate(angles),
        channels=np.array(ANGLES),
    )


def _angles(path: Path) -> Float[np.ndarray, "N 40"]:
    """The angles of every frame.

    A frame is a line with its number, then a line per bone, with the bone's name and
    angles. Of each bone, the first angles are used.
    """
    frames: list[dict[str, list[float]]] = []
    for line in path.read_text(encoding="ascii").splitlines():
        bone, *values = line.split() or [""]
        if bone.isdigit():
            frames.append({})
        elif values and frames:
            frames[-1][bone] = [float(value) for value in values]
    if not frames:
        raise ValueError(f"{path.name!r} must hold frames; got none.")
    counts = Counter(angle.partition(".")[0] for angle in ANGLES)
    return np.array(
        [
            [value for bone, count in counts.items() for value in frame[bone][:count]]
            for frame in frames
        ]
    )
