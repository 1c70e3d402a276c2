"""The record of runs: which code, settings, data and environment made each number.

It is plain files and plain git.
"""

COMMANDS = [
    ("", "what finished, failed or continued since you last looked", "list.news:news_command"),
    ("snapshot", "freeze the working tree, print the commit", "freeze.snapshot:snapshot_command"),
    ("runs list", "list runs, newest first", "list.command:list_command"),
    ("runs show", "one run: what ran, how it went, where it is", "list.show:show_command"),
    (
        "runs reproduce",
        "run a run again, from its frozen code; site=NAME: as a job",
        "reproduce.command:reproduce_command",
    ),
    (
        "runs table",
        "mean ± deviation over seeds, as text, Markdown, LaTeX",
        "compare.table:table_command",
    ),
    (
        "runs export",
        "the same as a file for a paper: CSV, LaTeX, Markdown",
        "compare.export:export_command",
    ),
    (
        "runs archive",
        "record, code and best weights of runs as one file, to publish",
        "keep.archive:archive_command",
    ),
    ("runs plot", "curves of runs, with characters or as a picture", "compare.plot:plot_command"),
    ("runs diff", "what two runs have different", "compare.diff:diff_command"),
    ("runs code", "write the frozen code of a run", "reproduce.code:code_command"),
    ("runs verify", "is a run as recorded, or two runs the same?", "verify.command:verify_command"),
    ("runs prune", "delete weights that nobody needs; --records: runs", "keep.prune:prune_command"),
    ("runs note", "add a note to a run", "keep.annotate:note_command"),
    ("runs tag", "tag a run", "keep.annotate:tag_command"),
    ("runs cost", "hours, GPU-hours, energy, money and CO2 of all runs", "list.cost:cost_command"),
]
