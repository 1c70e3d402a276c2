# Template's file: updated by "copier update". Change it in the template, or override it from your own files.
"""`python -m <package>.lab` is the same as `lab`; ranks and jobs start this way."""

import sys

from .cli import main

sys.exit(main())
