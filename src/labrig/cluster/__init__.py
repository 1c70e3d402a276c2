"""From one command to many nodes: sites, job scripts, submit, queue, logs, and the doctor."""

COMMANDS = [
    (
        "submit",
        "freeze the code, send it: lab submit trial=wide site=slurm",
        "submit.command:submit_command",
    ),
    (
        "queue",
        "your jobs: state, why they wait, for how long, GPU-hours",
        "watch.queue:queue_command",
    ),
    ("logs", "what a run's job printed; -f follows it", "watch.logs:logs_command"),
    ("cancel", "end a run's job", "watch.cancel:cancel_command"),
    ("support", "a run as one text for a help desk's ticket", "watch.support:support_command"),
    ("top", "who uses which GPU of this machine", "watch.top:top_command"),
    ("shell", "an interactive shell on a node", "submit.shell:shell_command"),
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
    ("site show", "the profile of a cluster", "sites.show:show_command"),
    ("site verify", "send a job of one minute: does it work?", "sites.verify:verify_command"),
    ("site init", "ask this cluster, and draft its profile", "sites.init:init_command"),
]

PROVIDES = [
    ("job_state_of", "watch.job_states:job_state_of"),
    ("job_words_of", "watch.job_states:job_words_of"),
    ("reproduce_as_job", "submit.reproduce:reproduce_as_job"),
]

ROOMS = ["image"]
