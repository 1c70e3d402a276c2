"""What users do to their projects: each edit is a function of the project's folder."""

import edits_of_own_files  # noqa: F401  each import declares edits
import edits_of_template_files  # noqa: F401
from edits import EDITS, append, edit, replace

__all__ = ["EDITS", "append", "replace"]


@edit()
def a_large_life(folder):
    """Everything at once that meets no release."""
    for name in QUIET:
        EDITS[name].apply(folder)


QUIET = (
    *(
        "readme",
        "a_trial",
        "loss",
        "settings",
        "own_groups_and_modules",
        "own_tests",
        "a_dependency",
    ),
    *("tools_for_development", "metadata", "rules_of_ruff", "targets", "hooks"),
    *("arguments_of_the_hook", "ignored", "attributes", "train_py", "modes", "unicode_names"),
    *("extras", "job_script", "bootstrap", "workflow"),
)
