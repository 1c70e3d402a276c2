"""`python -m labrig` is the same as `lab`; ranks and jobs start this way."""

import sys

from .cli import main

sys.exit(main())
