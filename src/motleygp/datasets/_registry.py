"""The registry: one entry per data set."""

from motleygp.datasets._info import Info, Paper
from motleygp.datasets._motions import ANGLES
from motleygp.datasets._raw import METALS

_OGL = "Open Government Licence 3.0"
_CMU = "free for research and commercial use with credit to mocap.cs.cmu.edu"
_AUTHORS = (
    "https://raw.githubusercontent.com/juanjogg1987/Fully_Natural_Gradient_HetMOGP/"
    "0e908e4131f431c2bf9f0eeedfc2291e4806ec7b/Database_Heterogeneous"
)

_JOINTS = ("position", "velocity", "acceleration")
_SARCOS_INPUTS = tuple(f"{kind}{d}" for kind in _JOINTS for d in range(1, 8))
_NAVAL_INPUTS = (
    *("lever", "speed", "shaft_torque", "turbine_rate", "generator_rate"),
    *("starboard_torque", "port_torque", "turbine_exit_temperature"),
    *("compressor_outlet_temperature", "turbine_exit_pressure"),
    *("compressor_inlet_pressure", "compressor_outlet_pressure"),
    *("exhaust_pressure", "injection_control", "fuel_flow"),
)
_STILL = ("lclavicle.ry", "lclavicle.rz")
_VEHICLES = ("pedal_cycle", "two_wheeled_motor", "car", "bus")


def _real(names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    return tuple((name, "hetgaussian") for name in names)


def _toy(name: str, kinds: tuple[str, ...]) -> Info:
    return Info(
        name=name,
        title=f"the paper's toy {name.upper()}: a mixture of three latent processes",
        rows=2000,
        inputs=(),
        outputs=tuple((f"{kind}{d}", kind) for d, kind in enumerate(kinds, start=1)),
        preparation="Real outputs are standardised; proportions are clipped to "
        "[1e-9, 0.99999].",
        differs="Other random draws; 44 x 44 rows for 2 inputs.",
        origin="drawn",
        licence="that of MotleyGP",
        paper=Paper(3, 80, 50),
    )


def _london(name: str, binary: str, meaning: str, differs: str) -> Info:
    return Info(
        name=name,
        title="LONDON: properties sold in London in 2017",
        rows=19483,
        inputs=("latitude", "longitude"),
        outputs=(("log_price", "hetgaussian"), (binary, "bernoulli")),
        preparation=f"The logarithm of the price is standardised. {meaning}",
        differs=differs,
        origin="HM Land Registry, price paid data 2017, as the paper's authors give it",
        licence=_OGL,
        files=("london/london.mat",),
        checksum="983d1e053bbdb8a42bf2939496a341def783779cb26b7951e4ba0b8d094a9b27",
        address=_AUTHORS,
        downloads=("london.mat",),
        paper=Paper(3, 80, 50),
    )


def _sarcos(
    name: str, file: str, rows: int, differs: str, checksum: str | None
) -> Info:
    return Info(
        name=name,
        title="SARCOS: the inverse dynamics of a robot arm",
        rows=rows,
        inputs=_SARCOS_INPUTS,
        outputs=_real(tuple(f"torque{d}" for d in range(1, 8))),
        preparation="Outputs are standardised.",
        differs=differs,
        origin="gaussianprocess.org/gpml/data, as the paper's authors give it",
        licence="none is stated",
        files=(f"sarcos/{file}",),
        checksum=checksum,
        address=_AUTHORS,
        downloads=(file,),
        paper=Paper(3, None, 200),
    )


def _traffic(name: str, preparation: str, differs: str) -> Info:
    return Info(
        name=name,
        title="TRAFFIC: vehicles on London's major roads, 2000 to 2002",
        rows=1712,
        inputs=("easting", "northing", "day_of_year"),
        outputs=tuple((vehicle, "poisson") for vehicle in _VEHICLES),
        preparation=preparation,
        differs=differs,
        origin="UK Department for Transport, raw counts of road traffic",
        licence=_OGL,
        files=("traffic/traffic_paperlike.npz",),
        checksum="e561e821fb6c662cac68f45fe5cfa09cf85e006e84db014d7e9f37d7575dd67c",
        downloads=("traffic_paperlike.npz",),
        obstacle="It is a selection from the Department's raw counts: London's major "
        "roads from 2000 to 2002, 8 to 9 am.",
        paper=Paper(4),
    )


_T1 = ("hetgaussian", "beta", "bernoulli")
_T2 = (*_T1, "gamma", "exponential")
_HOUR = "Counts of 8 to 9 am, not of the day"
_HUMAN_INPUTS, _HUMAN_PAPER = ("time",), Paper(5, 80, 50)
_HUMAN_OUTPUTS = (
    ("at_home", "bernoulli"),
    ("distance", "hetgaussian"),
    ("apps", "beta"),
)

_ENTRIES = (
    _toy("t1", _T1),
    _toy("t2", _T2),
    _toy("t3", (*_T2, "gaussian", *_T2[1:])),
    _london(
        "london",
        "contract",
        "Without a legend, contract 1 is taken as freehold: it is dearer.",
        "Freehold or leasehold, as in the authors' code; the text says flat.",
    ),
    _london(
        "london-flat",
        "flat",
        "Without a legend, type 1 is taken as flat: 99 % of its contracts are 0, and "
        "it is cheaper and nearer the centre.",
        "Flat or not, as in the paper's text; the code takes the contract.",
    ),
    Info(
        name="naval",
        title="NAVAL: the decay of a ship's propulsion plant, simulated",
        rows=11934,
        inputs=_NAVAL_INPUTS,
        outputs=(("compressor", "beta"), ("turbine", "gamma")),
        preparation="The constant ninth column is left out; another constant input "
        "stays. Outputs are scaled to the unit interval, then clipped to [1e-5, 0.999] "
        "and [1e-5, 1].",
        differs="None is known.",
        origin="UCI repository, condition based maintenance of naval propulsion "
        "plants, as the paper's authors give it",
        licence="CC BY 4.0",
        files=("naval/naval.txt",),
        checksum="601f1ff6d05c48146e88e39400a85ae546d5f54f018057c695fedc9e8a01e0c1",
        address=_AUTHORS,
        downloads=("naval.txt",),
        constant_inputs=("compressor_inlet_pressure",),
        paper=Paper(4, 80, 50),
    ),
    Info(
        name="human",
        title="HUMAN: a psychiatric patient's smartphone over time",
        rows=(5000, 5000, 21000),
        inputs=_HUMAN_INPUTS,
        outputs=_HUMAN_OUTPUTS,
        preparation="The logarithm of the distance is standardised; the number of apps "
        "is scaled to the unit interval, then clipped to [0.001, 0.99].",
        differs="At home or not, as in the authors' code; the text says use of "
        "WhatsApp. Times are not standardised. Not checked on the file.",
        origin="the app EB2, eb2.tech",
        licence="private",
        files=("human/eb2.mat",),
        downloads=("eb2.mat",),
        obstacle="It is private; 'human-synthetic' is a stand-in.",
        paper=_HUMAN_PAPER,
    ),
    Info(
        name="human-synthetic",
        title="a synthetic stand-in with the shape of HUMAN",
        rows=(5000, 5000, 21000),
        inputs=_HUMAN_INPUTS,
        outputs=_HUMAN_OUTPUTS,
        preparation="The distance is standardised; the share of apps is clipped to "
        "[0.001, 0.99].",
        differs="A stand-in: its scores say nothing about HUMAN.",
        origin="drawn",
        licence="that of MotleyGP",
        paper=_HUMAN_PAPER,
    ),
    _sarcos(
        "sarcos",
        "sarcos_inv.mat",
        44484,
        "None is known; not checked on the file.",
        None,
    ),
    _sarcos(
        "sarcos-4449",
        "sarcos_inv_test.mat",
        4449,
        "The small test file, a tenth of the rows: not comparable.",
        "cf3dfd7a8628bc08d200adf2a391465a93f8198a9f45eb6fa6bf97af41bf1f0d",
    ),
    Info(
        name="mocap7",
        title="MOCAP7: joint angles of a walking person, motions 02 and 03",
        rows=744,
        inputs=("time",),
        outputs=_real(tuple(name for name in ANGLES if name not in _STILL)),
        preparation="Time restarts at 0 in each motion. Outputs are standardised.",
        differs="38 of 40 outputs: two are constant.",
        origin="CMU motion capture, subject 7 (NSF EIA-0196217)",
        licence=_CMU,
        files=("mocap/mocap7_paper.npz",),
        checksum="30cc9a9c7158a6c4e1692875aeef17347b7aebe15785105540c0b4620b57f055",
        address="https://mocap.cs.cmu.edu/subjects/07",
        downloads=("07_02.amc", "07_03.amc"),
        left_out=_STILL,
        paper=Paper(3, 20, 5),
    ),
    Info(
        name="mocap9",
        title="MOCAP9: joint angles of a running person, motions 01 to 05",
        rows=686,
        inputs=("time",),
        outputs=_real(ANGLES[:20]),
        preparation="Time restarts at 0 in each motion. Outputs are standardised.",
        differs="Motions 01 to 05, 686 rows for 744: which they were is not known.",
        origin="CMU motion capture, subject 9 (NSF EIA-0196217)",
        licence=_CMU,
        files=("mocap/mocap09.npz",),
        checksum="e9fecdb5d3889933d93f2d1a738d1f9c0295f759444a5d4efc8f43aa4114f1c1",
        downloads=("mocap09.npz",),
        obstacle="Its angles were recovered from another format and differ from CMU's "
        "by up to 1e-4 degrees.",
        paper=Paper(3),
    ),
    _traffic(
        "traffic-8am",
        "Each output is scaled to a standard deviation of 500 and rounded down.",
        f"{_HOUR}: not comparable.",
    ),
    _traffic(
        "traffic-8am-unscaled",
        "None.",
        f"{_HOUR}, nor scaled: not comparable.",
    ),
    Info(
        name="jura",
        title="seven metals in the soil of the Swiss Jura",
        rows=359,
        inputs=("x", "y"),
        outputs=_real(METALS),
        preparation="The logarithms of the concentrations are standardised.",
        differs="Not in the paper.",
        origin="R package gstat: jura.pred and jura.val",
        licence="GPL-2 or later",
        files=("jura/jura.pred.csv", "jura/jura.val.csv"),
        checksum="562126d8f8bc7032f573d9351d7959f9410413eec5c4b78288353398d8a75f82",
        downloads=("jura.pred.csv", "jura.val.csv"),
        obstacle="R writes its files: data(jura, package = 'gstat'); "
        "write.csv(jura.pred, 'jura.pred.csv'); write.csv(jura.val, 'jura.val.csv').",
    ),
    Info(
        name="seattle-weather",
        title="four years of days in Seattle",
        rows=1461,
        inputs=("day", "day_of_year"),
        outputs=(
            *(("temp_max", "hetgaussian"), ("temp_min", "hetgaussian")),
            *(("wind", "gamma"), ("rain", "bernoulli")),
        ),
        preparation="Temperatures are standardised; rain is whether there was any.",
        differs="Not in the paper.",
        origin="NOAA, as vega-datasets gives it",
        licence="public domain (US government)",
        files=("seattle_weather/seattle-weather.csv",),
        checksum="3b6e757d32870a2b4eb21d659216a5e24d8337ef71b6520375505654a948f389",
        address="https://raw.githubusercontent.com/vega/vega-datasets/v1.31.1/data",
        downloads=("seattle-weather.csv",),
    ),
    Info(
        name="houses",
        title="synthetic house sales, a fifth of the values missing",
        rows=400,
        inputs=("east", "north"),
        outputs=(
            *(("change", "hetgaussian"), ("sold", "bernoulli")),
            *(("visits", "poisson"), ("days", "gamma")),
        ),
        preparation="None.",
        differs="Not in the paper.",
        origin="drawn",
        licence="that of MotleyGP",
    ),
)
REGISTRY = {entry.name: entry for entry in _ENTRIES}


def names() -> tuple[str, ...]:
    """The names of all data sets."""
    return tuple(REGISTRY)


def info(name: str) -> Info:
    """What is known about a data set: its shape, origin, licence and checksum, the
    paper's settings for it, and how it differs from the paper's."""
    if name not in REGISTRY:
        known = ", ".join(REGISTRY)
        raise ValueError(f"no dataset is named {name!r}; known: {known}.")
    return REGISTRY[name]
