"""The figures of a report, as plotly's JSON; split like `motleygp.plotting`."""

from motleygp.reporting._figures._calibration import calibration as calibration
from motleygp.reporting._figures._draw import Figure as Figure, numbers as numbers
from motleygp.reporting._figures._model import (
    heat_map as heat_map,
    inducing as inducing,
    relevance as relevance,
)
from motleygp.reporting._figures._predictions import (
    grids as grids,
    most_relevant as most_relevant,
    predictions as predictions,
)
from motleygp.reporting._figures._scores import gains as gains, missing as missing
from motleygp.reporting._figures._training import restarts as restarts, trace as trace
