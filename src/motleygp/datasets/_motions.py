"""The channels of CMU's motions."""

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
