"""`lab support`: one text for a ticket, from the record, the scheduler, the profile and the log."""

import json

from labrig.cluster.watch.support import support_command
from labrig.project import Project
from labrig.record.files.process import user
from projects import copy_project
from records import write_record
from test_cluster_ends import SCONTROL, fake  # noqa: F401

RUN_ID = "20261121-100000-abcdef"


def test_a_ticket_has_what_a_help_desk_asks_for_and_no_secret(
    tmp_path,
    fake,  # noqa: F811
    monkeypatch,
    capsys,
):
    project = Project.find(copy_project(tmp_path / "myproj"))
    monkeypatch.chdir(project.root)
    run_dir = project.root / "runs" / "baseline" / RUN_ID
    on_slurm = {"id": "12", "site": "slurm", "scheduler": "slurm"}
    write_record(run_dir, who=user(), host="login1", job=on_slurm)
    (run_dir / "attempts" / "1").mkdir(parents=True)
    (run_dir / "attempts" / "1" / "start.json").write_text(json.dumps({"host": "c2"}))
    monkeypatch.setenv("MY_TOKEN", "tr0ub4dor-and-three")
    lines = [f"line {n}" for n in range(50)]
    (run_dir / "job.log").write_text("\n".join([*lines, "key tr0ub4dor-and-three", "the end"]))
    fake("squeue")
    fake("scontrol", SCONTROL.format(state="NODE_FAIL", reason="None"))
    fake("sacct", "NODE_FAIL|c2\n")
    support_command(project, [RUN_ID])
    text = capsys.readouterr().out
    for words in (
        "12 on slurm: ",
        "c2",
        "== sacct --noheader",
        "NODE_FAIL|c2",
        "scheduler: slurm",
        "labrig ",
        "the end",
        "line 30",
    ):
        assert words in text
    assert "line 20\n" not in text  # the last lines only
    assert "tr0ub4dor" not in text
