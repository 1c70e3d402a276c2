"""`lab site init`: answers written in the forms of PBS, Grid Engine and PJM become a profile."""

import json

import pytest
import yaml
from labrig.cluster.schedulers import gridengine, pbs, pjm, scheduler_of
from labrig.cluster.sites import init as site_init
from labrig.cluster.sites.site import check_profile

PBS = {
    "qstat": json.dumps(
        {
            "Queue": {
                "gpu": {
                    "queue_type": "Execution",
                    "enabled": "True",
                    "started": "True",
                    "resources_max": {"walltime": "48:00:00", "nodect": 16, "ngpus": 64},
                },
                "old": {"enabled": "False", "started": "True"},
                "inner": {"enabled": "True", "started": "True", "from_route_only": "True"},
                "any": {"enabled": "True", "started": "True"},
            }
        }
    ),
    "pbsnodes": json.dumps(
        {
            "nodes": {
                "n1": {"resources_available": {"ncpus": 96, "ngpus": 8}},
                "n2": {"resources_available": {"ncpus": 128}},
            }
        }
    ),
}
GRID_ENGINE = {
    "qconf -sql": "all.q\nlong.q\n",
    "qconf -sq all.q": "qname all.q\ns_rt INFINITY\nh_rt 24:00:00\n",
    "qconf -sq long.q": "qname long.q\nh_rt INFINITY\n",
    "qconf -sc": "#name shortcut type\narch a RESTRING\nngpus gpu INT <= YES YES 0 0\n",
    "qconf -spl": "mpi\nsmp\n",
}
PJM = """\
SYSTEM: Aquarius
RSCGRP                    STATUS                 NODE
debug-a                   [ENABLE, START]           2
regular-a
  |-- small-a             [ENABLE, START]          24
closed                    [DISABLE, STOP]           1
"""


@pytest.fixture
def draft(monkeypatch):
    """draft(scheduler, answer): the profile and its comments, with answer(*command) in place of the commands."""

    def draft(scheduler, answer):
        def ask(*command, **_):
            return answer(*command)

        for part in (pbs, gridengine, pjm):
            monkeypatch.setattr(part, "answer_of", ask)
        monkeypatch.setattr(gridengine, "run_scheduler_command", ask)
        monkeypatch.setattr(site_init, "answer_of", lambda *_: "")
        monkeypatch.setattr(site_init, "installed_schedulers", lambda: [scheduler_of(scheduler)])
        text = site_init.draft_profile()
        profile = yaml.safe_load(text)
        check_profile(profile, "draft.yaml")
        comments = [line for line in text.splitlines() if line.startswith("#")]
        return profile, "\n".join(comments)

    return draft


def test_pbs_is_asked(draft):
    profile, comments = draft("pbs", lambda command, *_: PBS[command])
    assert profile["queues"] == [
        {"name": "gpu", "option": "-q {queue}", "max_h": 48.0, "max_nodes": 16, "max_gpus": 64},
        {"name": "any", "option": "-q {queue}"},
    ]
    assert profile["gpu"] == {"per_node": 8}
    assert profile["job"] == {"gpus": 1, "cpus_per_gpu": 12}
    assert "ngpus={gpus}" in profile["resources"][1]["options"][0]
    assert "pbs is experimental" in comments


def test_what_pbs_says_in_other_words_is_kept_for_the_reader(draft):
    profile, comments = draft("pbs", lambda *_: "QUEUE   STATUS\nregular-g [ENABLE]\n")
    assert profile["queues"] == []
    assert "#     regular-g [ENABLE]" in comments


def test_grid_engine_is_asked(draft):
    profile, comments = draft("gridengine", lambda *words: GRID_ENGINE[" ".join(words)])
    assert profile["queues"] == [
        {"name": "all.q", "option": "-q {queue}", "max_h": 24.0},
        {"name": "long.q", "option": "-q {queue}"},
    ]
    assert profile["resources"][1] == {"gpus": "any", "options": ["-l ngpus={gpus}"]}
    assert "# parallel environment mpi" in comments
    assert "experimental" not in comments


def test_pjm_is_asked_for_the_groups_that_a_job_may_name(draft):
    profile, comments = draft("pjm", lambda command, *_: PJM if _[0] == "--rsc" else "ACCEPT 4")
    assert [queue["name"] for queue in profile["queues"]] == ["debug-a", "regular-a"]
    assert "# limit ACCEPT 4" in comments
    assert "pjm is experimental" in comments
