"""Which errors the tests reach, in every process: REACHED_ERRORS=FILE names where each error adds its line.

The lines are added to the copy of the template that tests render, so generated projects carry no hook of the tests.
`hooks/error_catalogue.py` joins the file with the sites in the code.
"""

import os

VARIABLE = "REACHED_ERRORS"
LAB = "template/src/{{package_name}}/lab"
MAIN = '\n\nif __name__ == "__main__":'
COLLECTOR = '''

def _add_line(self, *arguments):
    """Adds the test, the class, and the lines of this package that led to the error."""
    import contextlib, json, os, sys

    Exception.__init__(self, *arguments)
    frame = sys._getframe(1)
    frames = []
    while frame and len(frames) < 8:
        folder, lab, file = frame.f_code.co_filename.rpartition("/lab/")
        if lab:
            frames.append([file, frame.f_code.co_qualname, frame.f_lineno])
        frame = frame.f_back
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    row = [test, type(self).__name__, frames, str(self)[:400]]
    with contextlib.suppress(OSError), open({path!r}, "a") as file:
        file.write(json.dumps(row) + "\\n")

'''
# What makes an error in each file, and adds its line
MAKERS = {
    "errors.py": "LabError.__init__ = _add_line\n",
    "hooks/update_branch.py": "UpdateError.__init__ = _add_line\n",
    "setup/process.py": """\
_stop = stop


def stop(message):
    _add_line(Exception(), message)
    _stop(message)
""",
}


def add_collector(template):
    """Lets each error of the projects rendered from this copy of the template add its line."""
    path = os.environ.get(VARIABLE)
    if not path:
        return
    collector = COLLECTOR.replace("{path!r}", repr(os.path.abspath(path)))
    for name, maker in MAKERS.items():
        file = template / LAB / name
        text, main, end = file.read_text(encoding="utf-8").partition(MAIN)
        file.write_text(f"{text}{collector}\n\n{maker}{main}{end}", encoding="utf-8")
