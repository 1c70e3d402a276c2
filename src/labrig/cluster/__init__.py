"""From one command to many nodes: sites, job scripts, submit, queue, logs, and the doctor."""

COMMANDS = [
    ("top", "who uses which GPU of this machine", "top_command:top_command"),
    ("shell", "an interactive shell on a node", "shell:shell_command"),
    ("runs list", "list runs, newest first", "runs:list_command"),
    ("runs show", "one run: what ran, how it went, where it is", "runs:show_command"),
    (
        "runs reproduce",
        "run a run again, from its frozen code; site=NAME: as a job",
        "reproduce:reproduce_command",
    ),
    ("runs prune", "delete runs that nobody needs", "runs:prune_command"),
    ("", "what finished, failed or continued since you last looked", "runs:news_command"),
    ("rank", "one process of a job (started by job scripts)", "rank:rank_command"),
    ("doctor", "what is wrong with this machine (--nodes: these nodes)", "doctor:doctor_command"),
    (
        "prefetch",
        "fetch what trial=NAME needs on nodes without internet",
        "prefetch:prefetch_command",
    ),
    ("image build", "the one file that jobs take their packages from", "image_build:build_command"),
    ("sync", "upload to W&B and MLflow what runs could not send", "sync:sync_command"),
    ("site show", "the profile of a cluster", "site_show:show_command"),
    ("site verify", "send a job of one minute: does it work?", "site_verify:verify_command"),
    ("site init", "ask this cluster, and draft its profile", "site_init:init_command"),
]
