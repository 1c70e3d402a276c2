"""The names that no package may have are frozen; those of later packages are only avoided."""

import keyword
import re
import sys
import textwrap
import tomllib
from importlib import metadata

from packaging.requirements import Requirement
from projects import PROJECT, ROOT

ANSWERS = ROOT / "template/answers.jinja"
# What torch, Lightning, torchmetrics, Hydra or scikit-learn import when it is installed
OPTIONAL = """
accelerate apex bitsandbytes boto3 comet_ml cv2 cupy dask dill deepspeed expecttest flax flint gcsfs gmpy2 horovod
jax jaxlib jsonargparse keras librosa litlogger matplotlib mlflow mlx neptune nltk numba onnx onnxruntime
onnxscript optree pandas pil polars portpicker psutil pyarrow pydot pytest_benchmark rouge_score s3fs
scienceplots seaborn soundfile tabulate tensorflow tensorrt timm tokenizers torch_xla torchao
torchaudio torchdata torchrec torchtext torchvision transformer_engine transformers xarray xformers
"""
DIRECTORIES = """
build conf config data dist docs hooks jobs lab project runs setup site src task tasks test tests tools train trial
trials utils vendor
"""
FORBIDDEN_BY_WINDOWS = {"aux", "con", "nul", "prn"}


def listed(name):
    """The names of a list in answers.jinja."""
    text = ANSWERS.read_text(encoding="utf-8")
    return re.search(rf'set {name} = "\n(.*?)" ?\.split', text, re.S)[1].split()


def names_in_use():
    """Lower-case names that a package of a project would hide, or that would hide it."""
    todo = required_by(PROJECT) | required_by(ROOT)
    assert {"labrig", "torch", "scikit-learn", "wandb", "ruff", "matplotlib"} <= todo
    todo -= {"myproj"}
    distributions = {"nvidia", "triton"}  # of the CUDA build of torch
    while todo:
        name = todo.pop().lower().replace("-", "_")
        if name not in distributions:
            distributions.add(name)
            todo |= {one.name for one in requirements_of(name)}
    imports = {
        name
        for name, owners in metadata.packages_distributions().items()
        if distributions & {owner.lower().replace("-", "_") for owner in owners}
    }
    names = (
        imports
        | distributions
        | FORBIDDEN_BY_WINDOWS
        | set((DIRECTORIES + OPTIONAL).split())
        | set(keyword.kwlist)
        | sys.stdlib_module_names
    )
    return {name for name in names if re.fullmatch("[a-z][a-z0-9_]{1,39}", name)}


def required_by(folder):
    """The distributions that a pyproject.toml names, with all extras and groups."""
    pyproject = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    project = pyproject["project"]
    groups = [*project["optional-dependencies"].values()]
    groups += pyproject.get("dependency-groups", {}).values()
    return {
        Requirement(text).name for group in [project["dependencies"], *groups] for text in group
    }


def requirements_of(name):
    """What a distribution needs here, without its extras; nothing where it is not installed."""
    try:
        requires = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return []
    texts = [text for text in requires if "extra ==" not in text]
    requirements = [Requirement(text) for text in texts]
    return [one for one in requirements if one.marker is None or one.marker.evaluate()]


def test_names_that_are_refused_are_the_same_for_ever():
    """A name more would end the updates of the projects that have it; `avoided` is the list for it."""
    golden = (ROOT / "tests/golden/refused_names.txt").read_text().split()
    assert listed("refused") == golden
    assert "labrig" in golden
    assert not set(listed("avoided")) & set(golden)


def test_names_in_use_are_refused_or_avoided(request):
    later = names_in_use() - set(listed("refused"))
    if request.config.getoption("--regenerate"):
        text = ANSWERS.read_text(encoding="utf-8")
        names = textwrap.fill(" ".join(sorted(later | set(listed("avoided")))), 110)
        pattern = r'(set avoided = "\n)(.*?)(" ?\.split)'
        text = re.sub(pattern, rf"\g<1>{names}\n\g<3>", text, flags=re.S)
        ANSWERS.write_text(text, encoding="utf-8")
    assert later - set(listed("avoided")) == set(), "run it again with --regenerate"
