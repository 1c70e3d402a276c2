"""The commands that this package adds to `lab`: words, one line of help, file:function."""

COMMANDS = [("logbook", "the last trainings of our lab", "show_logbook:logbook_command")]
