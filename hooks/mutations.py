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
    """A feature taken out: in `file`, below the repository, `text` becomes `without`."""

    row: int  # of docs/coverage.md
    what: str
    file: str
    text: str
    without: str
    test: str


MUTATIONS = [
    Mutation(
        31,
        "the memory of a V100 is read at 9 GB/s",
        "docs/memory.md",
        "V100 | 7.0 | 16 or 32 | 900",
        "V100 | 7.0 | 16 or 32 | 9",
        "tests/docs/test_docs_pages.py::test_the_other_columns_of_the_table_of_gpus_agree_with_each_other",
    ),
    Mutation(
        32,
        "a V100 takes 3000 W",
        "docs/memory.md",
        "15.7 | 7.8 | - | 300",
        "15.7 | 7.8 | - | 3000",
        "tests/docs/test_docs_pages.py::test_the_other_columns_of_the_table_of_gpus_agree_with_each_other",
    ),
    Mutation(
        33,
        "DDP does not average the gradients",
        "src/labrig/training/parts/ddp.py",
        "class ",
        "from torch.nn.parallel import DistributedDataParallel as _D\n"
        "_D.forward = lambda self, *a, **k: self.module(*a, **k)\n\n\nclass ",
        "tests/training/test_training.py::test_parameters_spread_over_two_processes_learn_the_same",
    ),
    Mutation(
        42,
        "two processes are always 100 % efficient",
        "src/labrig/bench/bench.py",
        "rate / n / rates[1]",
        "1.0",
        "tests/bench/test_bench.py::test_the_efficiency_is_the_rate_of_each_process",
    ),
    Mutation(
        59,
        "every disk is as fast",
        "src/labrig/hdf5/read/disks.py",
        "return n_bytes / 1e6 / spent_s",
        "return 1.0",
        "tests/hdf5/test_hdf5_commands.py::test_a_disk_is_as_fast_as_it_was_read",
    ),
    Mutation(
        64,
        "checkpoints of a cluster lie in the home",
        "src/labrig/conf/site/slurm.yaml",
        "checkpoints: $SCRATCH",
        "checkpoints: $HOME",
        "tests/cluster/test_cluster_sites.py::test_runs_and_checkpoints_of_a_centre_lie_on_its_disks",
    ),
    Mutation(
        69,
        "every data file fits into the memory",
        "src/labrig/hdf5/file/info.py",
        'answer = "yes" if size_bytes < USABLE_SHARE * n_bytes else "no"',
        'answer = "yes"',
        "tests/hdf5/test_hdf5_commands.py::test_a_file_larger_than_the_memory_does_not_fit",
    ),
    Mutation(
        76,
        "runs of Jean Zay lie in the home",
        "src/labrig/conf/site/jean_zay_h100.yaml",
        "runs: $WORK/",
        "runs: $HOME/",
        "tests/cluster/test_cluster_sites.py::test_runs_and_checkpoints_of_a_centre_lie_on_its_disks",
    ),
    Mutation(
        86,
        "no layer is uneven",
        "src/labrig/bench/measure.py",
        "if any(n > 4 and n % 8 for n in shape):",
        "if False:",
        "tests/bench/test_learning_rate.py::test_layers_that_are_no_multiple_of_eight_are_named",
    ),
    Mutation(
        99,
        "the baseline has no loss",
        "tests/project/src/myproj/task.py",
        "loss = F.cross_entropy(score_BC, label_B)",
        "loss = score_BC.sum() * 0",
        "tests/training/test_training.py::test_the_baseline_reads_digits",
    ),
    Mutation(
        100,
        "the doctor does not say which BLAS NumPy has",
        "src/labrig/cluster/doctor/checks.py",
        "NumPy {numpy.__version__} ({numpy_blas})",
        "NumPy {numpy.__version__} (?)",
        "tests/cluster/test_cluster_doctor.py::test_the_doctor_examines_this_machine",
    ),
    Mutation(
        114,
        "the page says to guess",
        "docs/faster.md",
        "Measure, change the slowest part",
        "Guess, change a part",
        "tests/docs/test_coverage.py::test_a_described_row_names_a_section_that_says_so",
    ),
    Mutation(
        126,
        "the peak of memory is a constant",
        "src/labrig/record/list/cost.py",
        'peak_memory_bytes = largest_of(attempts, "peak_memory_bytes") or 0',
        "peak_memory_bytes = 9.99e9",
        "tests/training/test_watching.py::test_a_log_can_be_watched",
    ),
    Mutation(
        131,
        "only torch is seeded",
        "src/labrig/training/parts/settings.py",
        "L.seed_everything(config.seed, workers=True, verbose=False)",
        "torch.manual_seed(config.seed)",
        "tests/training/test_trainer_settings.py::test_a_seed_is_that_of_every_generator",
    ),
    Mutation(
        133,
        "optimizer=sgd is Adam",
        "src/labrig/conf/optimizer/sgd.yaml",
        "torch.optim.SGD",
        "torch.optim.Adam",
        "tests/training/test_trainer_settings.py::test_sgd_is_torchs",
    ),
    Mutation(
        135,
        "the suggested learning rate is always 0.1",
        "src/labrig/bench/measure.py",
        "return rates[best]",
        "return 0.1",
        "tests/bench/test_learning_rate.py::test_the_rate_is_where_the_loss_falls_fastest",
    ),
    Mutation(
        145,
        "tpe is a random search",
        "src/labrig/sweep/journal.py",
        'if name == "tpe":',
        'if name == "none":',
        "tests/sweep/test_search_samplers.py::test_the_name_of_a_sampler_is_its_algorithm",
    ),
    Mutation(
        157,
        "what Lightning writes lies elsewhere",
        "src/labrig/training/parts/trainer.py",
        "default_root_dir=run.dir,",
        'default_root_dir=run.dir / "elsewhere",',
        "tests/training/test_pictures.py::test_pictures_of_each_validation",
    ),
    Mutation(
        161,
        "ruff stops no commit",
        "src/labrig/hooks/checks.py",
        "def check_style(",
        "def check_style(*_):\n    return 0\n\n\ndef unused(",
        "tests/hooks/test_hooks.py::test_first_code_of_a_student_is_repaired_and_passes_the_second_time",
    ),
    Mutation(
        169,
        "the doctor does not say which Python runs",
        "src/labrig/cluster/doctor/checks.py",
        'f"Python {sys.version.split()[0]} in',
        'f"Python in',
        "tests/cluster/test_cluster_doctor.py::test_the_doctor_examines_this_machine",
    ),
    Mutation(
        187,
        "W&B watches gradients only",
        "src/labrig/training/loggers/wandb_logger.py",
        'if self.watched in ("parameters", "all"):',
        'if self.watched == "none":',
        "tests/training/test_loggers.py::test_wandb_gets_tags_and_histograms_of_the_layers_when_asked",
    ),
    Mutation(
        190,
        "an A100 has 97 TFLOP/s in fp64",
        "docs/memory.md",
        "312 | 156 | 9.7 (19.5)",
        "312 | 156 | 97 (195)",
        "tests/docs/test_docs_pages.py::test_the_other_columns_of_the_table_of_gpus_agree_with_each_other",
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
    path = ROOT / mutation.file
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
