"""The paper's experiments: their cells, runs, figures and summaries."""

from motleygp_reproduce.running import reproduce
from motleygp_reproduce.studies import STUDIES

__all__ = ["STUDIES", "reproduce"]
