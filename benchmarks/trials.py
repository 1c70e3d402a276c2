"""CPU seconds of `lab trials tree` with 200 trials and 10,000 runs.

    python benchmarks/trials.py [ROUNDS]

The median over the rounds of user + system time, children included. The limit is the design's.
"""

import sys
import tempfile
from pathlib import Path

from cpu_seconds import cpu_s, say
from made_runs import make_runs
from project_copy import LAB, make_project
from repositories import commit

N_RUNS = 10_000
N_TRIALS = 201  # no common divisor with the 8 learning rates and 50 seeds of `settings_of`
README = """# trial{n}

**Parent.** [trial{parent}](../trial{parent}/README.md)

**Question.** Is {n} better than {parent}?

**Verdict.** It is not, by a little; this verdict is as long as most are, which is longer than a line.
"""


def make_trials(folder: Path) -> None:
    """Trials, each with a parent."""
    for n in range(N_TRIALS):
        trial = folder / f"src/myproj/trials/trial{n}"
        trial.mkdir()
        (trial / "config.yaml").write_text(f"model:\n  width: {n}\n")
        (trial / "README.md").write_text(README.format(n=n, parent=n // 3))


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as name:
        folder = make_project(Path(name))
        make_trials(folder)
        commit(folder, "Add trials")
        make_runs(folder, N_RUNS, N_TRIALS)
        caches = {"TMPDIR": name}
        cpu_s([*LAB, "runs", "list"], folder, **caches)  # makes the cache of rows
        commands = {
            "lab runs list, 10,000 runs": [*LAB, "runs", "list"],
            "lab trials tree, 201 trials, 10,000 runs    (limit 0.5)": [*LAB, "trials", "tree"],
            "the same with --json": [*LAB, "trials", "tree", "--json"],
        }
        figures: dict[str, list[float]] = {what: [] for what in commands}
        for _ in range(rounds):
            for what, command in commands.items():
                seconds, text = cpu_s(command, folder, **caches)
                figures[what].append(seconds)
                assert "trial199" in text
        for what, seconds in figures.items():
            say(what, seconds)


if __name__ == "__main__":
    main()
