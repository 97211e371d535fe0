"""Results of a fitted model: distributions, scores and inspection."""

from motleygp.prediction.fitted import Fitted as Fitted
from motleygp.prediction.outputs import (
    distributions as distributions,
    predict as predict,
)
from motleygp.prediction.predictive import (
    AbstractPredictive as AbstractPredictive,
    Mixture as Mixture,
    Predictive as Predictive,
)
from motleygp.prediction.seen import Seen as Seen, see as see
