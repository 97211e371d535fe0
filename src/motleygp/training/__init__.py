"""Training: the start, one pure step, runs, restarts, checkpoints, draws of theta."""

from motleygp.training.initialise import (
    Start as Start,
    data_driven_start as data_driven_start,
    initial_model as initial_model,
    joint_pays as joint_pays,
    paper_start as paper_start,
    start_precision as start_precision,
    with_form as with_form,
)
from motleygp.training.journal import (
    Callback as Callback,
    Report as Report,
)
from motleygp.training.loop import (
    HeldOut as HeldOut,
    run as run,
)
from motleygp.training.one_step import (
    StepInfo as StepInfo,
    minibatch as minibatch,
    step as step,
)
from motleygp.training.restarts import (
    Outcome as Outcome,
    Task as Task,
    absorb as absorb,
    best as best,
    warn_if_failed as warn_if_failed,
)
from motleygp.training.state import (
    Solution as Solution,
    TrainState as TrainState,
    init as init,
    solution as solution,
)
from motleygp.training.trace import (
    Run as Run,
    named_trace as named_trace,
    warn_if_refused as warn_if_refused,
)
