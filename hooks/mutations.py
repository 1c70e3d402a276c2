"""Each week: takes a promised feature out of the code, and looks that the test named for it fails.

A row of docs/coverage.md names tests that show it. A test that stays green without the feature shows nothing.
mutations.py [ROW ...]; exits 1 when a test does not notice, or a text to replace is no longer there.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIMIT_S = 900  # of one test


@dataclass(frozen=True)
class Mutation:
    """A feature taken out: in `file`, below src/labrig, `text` becomes `without`."""

    row: int  # of docs/coverage.md
    what: str
    file: str
    text: str
    without: str
    test: str


MUTATIONS = [
    Mutation(
        33,
        "DDP does not average the gradients",
        "training/parts/ddp.py",
        "class ",
        "from torch.nn.parallel import DistributedDataParallel as _D\n"
        "_D.forward = lambda self, *a, **k: self.module(*a, **k)\n\n\nclass ",
        "tests/training/test_training.py::test_parameters_spread_over_two_processes_learn_the_same",
    ),
    Mutation(
        64,
        "checkpoints of a cluster lie in the home",
        "conf/site/slurm.yaml",
        "checkpoints: $SCRATCH",
        "checkpoints: $HOME",
        "tests/cluster/test_cluster_sites.py::test_runs_and_checkpoints_of_a_centre_lie_on_its_disks",
    ),
    Mutation(
        69,
        "every data file fits into the memory",
        "hdf5/file/info.py",
        'answer = "yes" if size_bytes < USABLE_SHARE * n_bytes else "no"',
        'answer = "yes"',
        "tests/hdf5/test_hdf5_commands.py::test_a_file_larger_than_the_memory_does_not_fit",
    ),
    Mutation(
        76,
        "runs of Jean Zay lie in the home",
        "conf/site/jean_zay_h100.yaml",
        "runs: $WORK/",
        "runs: $HOME/",
        "tests/cluster/test_cluster_sites.py::test_runs_and_checkpoints_of_a_centre_lie_on_its_disks",
    ),
    Mutation(
        86,
        "no layer is uneven",
        "bench/measure.py",
        "if any(n > 4 and n % 8 for n in shape):",
        "if False:",
        "tests/bench/test_learning_rate.py::test_layers_that_are_no_multiple_of_eight_are_named",
    ),
    Mutation(
        100,
        "the doctor does not say which BLAS NumPy has",
        "cluster/doctor/checks.py",
        "NumPy {numpy.__version__} ({numpy_blas})",
        "NumPy {numpy.__version__} (?)",
        "tests/cluster/test_cluster_doctor.py::test_the_doctor_examines_this_machine",
    ),
    Mutation(
        131,
        "only torch is seeded",
        "training/parts/settings.py",
        "L.seed_everything(config.seed, workers=True, verbose=False)",
        "torch.manual_seed(config.seed)",
        "tests/training/test_trainer_settings.py::test_a_seed_is_that_of_every_generator",
    ),
    Mutation(
        133,
        "optimizer=sgd is Adam",
        "conf/optimizer/sgd.yaml",
        "torch.optim.SGD",
        "torch.optim.Adam",
        "tests/training/test_trainer_settings.py::test_sgd_is_torchs",
    ),
    Mutation(
        135,
        "the suggested learning rate is always 0.1",
        "bench/learning_rate.py",
        "return rates[best]",
        "return 0.1",
        "tests/bench/test_learning_rate.py::test_the_rate_is_where_the_loss_falls_fastest",
    ),
    Mutation(
        145,
        "tpe is a random search",
        "sweep/samplers.py",
        'if name == "tpe":',
        'if name == "none":',
        "tests/sweep/test_search_samplers.py::test_the_name_of_a_sampler_is_its_algorithm",
    ),
    Mutation(
        161,
        "ruff stops no commit",
        "hooks/checks.py",
        "def check_style(",
        "def check_style(*_):\n    return 0\n\n\ndef unused(",
        "tests/hooks/test_hooks.py::test_first_code_of_a_student_is_repaired_and_passes_the_second_time",
    ),
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", type=int, help="rows of docs/coverage.md; all without")
    rows = parser.parse_args().rows
    chosen = [mutation for mutation in MUTATIONS if not rows or mutation.row in rows]
    problems = [problem for problem in map(problem_of, chosen) if problem]
    print(*problems, f"{len(chosen) - len(problems)} passed, {len(problems)} failed", sep="\n")
    return 1 if problems else 0


def problem_of(mutation: Mutation) -> str:
    """Why a mutation shows nothing; "" where its test fails, as it must."""
    path = ROOT / "src/labrig" / mutation.file
    text = path.read_text(encoding="utf-8")
    if mutation.text not in text:
        return f"{mutation.row}: {mutation.file} has no {mutation.text!r}; write what is there now"
    if run(mutation.test):
        return f"{mutation.row}: {mutation.test} fails without the mutation, too; mend it first"
    path.write_text(text.replace(mutation.text, mutation.without, 1), encoding="utf-8")
    try:
        code = run(mutation.test)
    finally:
        path.write_text(text, encoding="utf-8")
    print(f"{mutation.row}: {mutation.what}: {'noticed' if code == 1 else f'pytest gave {code}'}")
    return "" if code == 1 else f"{mutation.row}: {mutation.test} does not notice: {mutation.what}"


def run(test: str) -> int:
    words = ["-m", "pytest", "-q", "-x", "-p", "no:xdist", "-m", "", test]
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, timeout=LIMIT_S)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
