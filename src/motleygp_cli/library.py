"""The library, whose import takes seconds: for functions, when they need it."""

from motleygp_cli import ending_at_once

with ending_at_once():
    import motleygp as mg
    from motleygp.estimator.settings import check as check_settings

__all__ = ["check_settings", "mg"]
