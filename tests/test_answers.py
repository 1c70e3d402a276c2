"""An answer survives in every format it lands in, or is refused with words; nothing between."""

import keyword
import re
import sys
import textwrap
from importlib import metadata

import hypothesis
import hypothesis.strategies as st
import pytest
from conftest import ROOT
from packaging.requirements import Requirement
from project_files import check_project

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
PLAIN_LINES = [*PLAIN_TEXT.strip().split("\n"), "'''", "x" * 60]

BAD_PACKAGES = [
    "class", "1abc", "2026-study", "日本語", "..", ".", "_", "", "a", "Torch", "nets\n", "x" * 41,
    "torch", "numpy", "hydra", "yaml", "sklearn", "scikit_learn", "json", "test", "tests", "src",
    "lab", "site", "conf", "utils", "matplotlib", "torchvision", "dill", "pandas",
    "opentelemetry_exporter_otlp_proto_common", "../evil", "a/b", "a;b", "$HOME",
]  # fmt: skip


def assert_fits(error):
    """The question shows it below the answer, in one line of a terminal."""
    assert len(str(error).partition(": ")[2]) <= 80, error


@pytest.mark.parametrize("text", PLAIN_LINES)
def test_any_line_of_text_survives(render_answers, tmp_path, text):
    folder = render_answers(tmp_path / "p", project_name=text, description=text, author=text)
    assert check_project(folder, project_name=text, description=text, author=text)


@pytest.mark.parametrize("question", ["project_name", "description", "author"])
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "must not be empty"),
        ("a\nb", "control character"),
        ('x"\nversion = "9', "control character"),
        ("a\0b", "control character"),
        ("a\tb", "control character"),
        ("a\x7fb", "control character"),
        ("a\u2028b", "control character"),
        ("a\u202eb", "invisible character"),
        ("a\ufffeb", "control character"),
        (" a", "begins or ends with a space"),
        ("a ", "begins or ends with a space"),
        ("x" * 201, "201 characters"),
    ],
)
def test_text_that_is_refused(render_answers, tmp_path, question, text, why):
    with pytest.raises(ValueError, match=why) as refused:
        render_answers(tmp_path / "p", **{question: text})
    assert_fits(refused.value)
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize("name", BAD_PACKAGES)
def test_package_name_that_is_refused(render_answers, tmp_path, name):
    with pytest.raises(ValueError, match=r"The package name (must be|is already taken)") as refused:
        render_answers(tmp_path / "p", package_name=name)
    assert_fits(refused.value)
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize(
    ("folder", "package"),
    [
        ("Wide Nets!", "wide_nets"),
        ("2026-study", "study"),
        ("2026", "my_research"),
        ("日本語", "my_research"),
        ("torch", "torch_research"),
        ("x", "x_research"),
        ("n" * 200, "my_project"),  # too long for a name, so the name is "my project"
    ],
)
def test_package_name_from_the_folder(render_answers, tmp_path, folder, package):
    rendered = render_answers(tmp_path / folder)
    assert check_project(rendered) == package


line = st.text(st.characters(codec="utf-8"), max_size=70)


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(name=line, description=line)
def test_names_and_descriptions_are_refused_by_name_or_read_back(
    render_answers, tmp_path_factory, name, description
):
    folder = tmp_path_factory.mktemp("any") / "p"
    try:
        render_answers(folder, project_name=name, description=description)
    except ValueError as error:
        refusal = str(error)
    else:
        refusal = None
        check_project(folder, project_name=name, description=description)
    if refusal is not None:
        assert re.search("The (project's name|description) (must|has|contains|begins)", refusal)
        assert not folder.exists()


def names_in_use():
    """Lower-case names that a package of a project would hide, or that would hide it."""
    text = (ROOT / "template/pyproject.toml.jinja").read_text()
    lists = re.findall(
        r"^(?:dependencies|lab|tensorboard|wandb|lab-dev) = \[(.*?)\]$", text, re.M | re.S
    )
    todo = [name for entries in lists for name in re.findall(r'"([\w-]+)[\w\[\]-]*[>=<]', entries)]
    assert {"torch", "scikit-learn", "wandb", "ruff"} <= set(todo)
    distributions = {"nvidia", "triton"}  # of the CUDA build of torch
    while todo:
        distribution = metadata.distribution(todo.pop())
        name = distribution.name.lower().replace("-", "_")
        if name not in distributions:
            distributions.add(name)
            requirements = [Requirement(text) for text in distribution.requires or []]
            todo += [
                r.name for r in requirements if r.marker is None or r.marker.evaluate({"extra": ""})
            ]
    imports = {
        name for name, owners in metadata.packages_distributions().items()
        if distributions & {owner.lower().replace("-", "_") for owner in owners}
    }  # fmt: skip
    directories = "build conf config data dist docs hooks lab project runs setup site src task tasks test tests"
    words = "train trial trials utils"
    # what torch, Lightning, torchmetrics, Hydra or scikit-learn import when it is installed
    optional = (
        "accelerate apex bitsandbytes boto3 comet_ml cv2 cupy dask dill deepspeed expecttest flax gcsfs horovod "
        "jax jaxlib jsonargparse keras librosa litlogger matplotlib mlflow mlx neptune nltk numba onnx onnxruntime "
        "onnxscript optree pandas pil polars portpicker psutil pyarrow pydot pytest_benchmark rouge_score s3fs "
        "scienceplots seaborn soundfile tabulate tensorflow tensorrt timm tokenizers torch_xla torchao "
        "torchaudio torchdata torchrec torchtext torchvision transformer_engine transformers xarray xformers"
    )
    names = (
        imports
        | distributions
        | set(f"{directories} {words} {optional}".split())
        | set(keyword.kwlist)
        | sys.stdlib_module_names
    )
    return {name for name in names if re.fullmatch("[a-z][a-z0-9_]{1,39}", name)}


def test_reserved_package_names_are_complete(request):
    path = ROOT / "template/answers.jinja"
    before, listed, after = re.fullmatch(
        r'(.*reserved = "\n)(.*?)(" \.split.*)', path.read_text(), re.S
    ).groups()
    if request.config.getoption("--regenerate"):
        listed = textwrap.fill(" ".join(sorted(set(listed.split()) | names_in_use())), 110) + "\n"
        path.write_text(before + listed + after)
    assert names_in_use() - set(listed.split()) == set(), "run it again with --regenerate"
