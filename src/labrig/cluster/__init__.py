"""From one command to many nodes: sites, job scripts, submit, queue, logs, and the doctor."""

COMMANDS = [
    ("top", "who uses which GPU of this machine", "watch.top_in_job:top_command"),
    ("shell", "an interactive shell on a node", "submit.shell:shell_command"),
    ("runs list", "list runs, newest first", "watch.runs:list_command"),
    ("runs show", "one run: what ran, how it went, where it is", "watch.runs:show_command"),
    (
        "runs reproduce",
        "run a run again, from its frozen code; site=NAME: as a job",
        "submit.reproduce:reproduce_command",
    ),
    ("runs prune", "delete runs that nobody needs", "watch.runs:prune_command"),
    ("", "what finished, failed or continued since you last looked", "watch.runs:news_command"),
    ("rank", "one process of a job (started by job scripts)", "job.rank:rank_command"),
    (
        "doctor",
        "what is wrong with this machine (--nodes: these nodes)",
        "doctor.command:doctor_command",
    ),
    (
        "prefetch",
        "fetch what trial=NAME needs on nodes without internet",
        "submit.prefetch:prefetch_command",
    ),
    ("image build", "the one file that jobs take their packages from", "image.build:build_command"),
    ("sync", "upload to W&B and MLflow what runs could not send", "watch.sync:sync_command"),
    ("site show", "the profile of a cluster", "sites.show:show_command"),
    ("site verify", "send a job of one minute: does it work?", "sites.verify:verify_command"),
    ("site init", "ask this cluster, and draft its profile", "sites.init:init_command"),
]
