"""Ranks that call a function of a test, each a fork of the warm process, which has imported torch already."""

import os
import pickle
import sys
import tempfile
from pathlib import Path

from projects import HELPERS, SOURCE, warm_process


def run_ranks(function, *arguments, n_ranks=2):
    """function(rank, *arguments) in `n_ranks` processes, all of which must succeed."""
    folders = (SOURCE, Path(sys.modules[function.__module__].__file__).parent)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, folders))}
    with tempfile.NamedTemporaryFile() as call:
        call.write(pickle.dumps((function, arguments)))
        call.flush()
        ranks = [
            warm_process().start("ranks", [call.name, n], HELPERS, environment)
            for n in range(n_ranks)
        ]
        said = [rank.communicate(timeout=240) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * n_ranks, said


if __name__ == "__main__":
    function, arguments = pickle.loads(Path(sys.argv[1]).read_bytes())
    function(int(sys.argv[2]), *arguments)
