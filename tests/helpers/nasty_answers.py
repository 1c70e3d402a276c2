"""Answers that have broken other templates, and copier's own way to accept or refuse one."""

import datetime
from functools import cache

from copier._jinja_ext import SandboxedEnvironment
from copier._user_data import AnswersMap, Question
from jinja2 import FileSystemLoader, StrictUndefined
from projects import ROOT
from rendering import QUESTIONS

PLAIN_TEXT = r'''
say "hi"
C:\new \u12
it's
"""
🎲 名前 ñ
{{ 7 * 7 }}
{% if %}
${package}
a: b # c
- x
1. x
2) x
+ x
# x
C#
> x
[a](b)
![a](b)
*a* _b_ a_b __c__
~~a~~
`rm -rf`
$(touch x); ls
<script>
&lt; & co
| a | b |
&anchor *ref
%TAG !x
@x
!x
null
yes
1e3
0x10
2026-11-20
\
a\
---
=
'''
# Lines that end up as they are in every file
PLAIN_LINES = [*PLAIN_TEXT.strip().split("\n"), "'''", "x" * 60]

MORE_LINES = [
    "...", "~", "no", "on", "true", ".inf", ".nan", "1_000", "0o17", "12:30:45", "<<: *x", "? x",
    "key: [a, b", "{a: 1", "a, b]", "'", '"', "\\\"", "\\n", "\\x00", "%s %d", "$HOME", "${oc.env:HOME}",
    "#!x", "{# x #}", "{%- raw %}", "]]>", "<!-- x", "--data", "-x", "=1+1", "///", "..", "CON",
    "ﬁ", "\u00ad", "\u200b", "e\u0301", "\U0001f469\u200d\U0001f52c", "\U0010ffff", "\ue000", "\ufdd0",
    "א", "مرحبا", "ไทย", "ß", "İ", "x" * 59 + "é",
]  # fmt: skip
REFUSED_LINES = {
    "": "must not be empty",
    "a\nb": "control character",
    "a\r\nb": "control character",
    'x"\nversion = "9': "control character",
    "a\0b": "control character",
    "a\tb": "control character",
    "a\x1b[31mb": "control character",
    "a\x7fb": "control character",
    "a\x85b": "control character",
    "a\u2028b": "control character",
    "a\u2029b": "control character",
    "a\ufffeb": "control character",
    "a\uffffb": "control character",
    "a\ud800b": "control character",
    "a\u202eb": "invisible character",
    "a\u200fb": "invisible character",
    "\ufeffa": "invisible character",
    " ": "begins or ends with a space",
    " a": "begins or ends with a space",
    "a ": "begins or ends with a space",
    "\u3000a": "begins or ends with a space",
    "a\u00a0": "begins or ends with a space",
    "x" * 201: "201 characters",
}
# As they may stand in a data file
NO_TEXTS = [None, [], ["a"], {}, {"a": 1}, datetime.date(2026, 11, 20)]
NUMBERS = {0: "0", 1.5: "1.5", True: "True"}

BAD_PACKAGES = [
    "class", "None", "_", "1abc", "2026-study", "日本語", "ñandu", "..", ".", "", "a", "Torch",
    "nets\n", "nets ", " nets", "ne ts", "ne-ts", "ne.ts", "nets_", "__init__", "x" * 41, "nets\0",
    "../evil", "a/b", "a\\b", "a;b", "a&b", "$HOME", "`x`", "$(x)", "{{ x }}", "%x", "'x'", '"x"', "x:y",
    "con", "nul", "aux", "prn", "com1", "lpt9", "import", "lambda", "async",
    "torch", "numpy", "hydra", "yaml", "sklearn", "scikit_learn", "json", "test", "tests", "src",
    "lab", "labrig", "jobs", "site", "conf", "data", "task", "train", "trials", "utils", "setup", "docs",
    "runs", "dist", "matplotlib", "torchvision", "dill", "gmpy2", "pandas", "optuna", "mlflow", "wandb", "mpi4py",
    "opentelemetry_exporter_otlp_proto_common",
]  # fmt: skip
GOOD_PACKAGES = [
    "no", "null", "nan", "a__b", "on", "off", "yes", "y1", "true", "inf", "x2", "nets", "match", "x" * 40,
]  # fmt: skip


@cache
def environment():
    """Jinja as copier sets it up for this template."""
    return SandboxedEnvironment(
        loader=FileSystemLoader(ROOT),
        extensions=["jinja2_ansible_filters.AnsibleCoreFiltersExtension"],
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )


def accepted(question, answer, details=None):
    """The text that copier makes of an answer to a question; `details`: those of another release.

    Raises:
        ValueError: copier refuses it.
        TypeError: it is no text.
    """
    asked = Question(
        var_name=question,
        answers=AnswersMap(),
        context={"_copier_answers": {}, "_copier_conf": {"data": {}}},
        jinja_env=environment(),
        **(details or QUESTIONS[question]),
    )
    text = asked.parse_answer(answer)
    asked.validate_answer(text)
    return text
