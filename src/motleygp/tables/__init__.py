"""The users' tables, and the likelihoods inferred from them."""

from motleygp.tables.columns import Column as Column
from motleygp.tables.frames import Table as Table, as_table as as_table
from motleygp.tables.infer import Choice as Choice, infer_outputs as infer_outputs
