"""The library, which takes seconds to import.

Only functions import this module, once they need the library.
"""

from motleygp_cli.signals import ending_at_once

with ending_at_once():
    import motleygp as mg
    from motleygp.estimator.settings import check as check_settings

__all__ = ["check_settings", "mg"]
