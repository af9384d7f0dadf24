"""``python -m sojourn`` is the command line."""

import sys

from sojourn.cli import main

sys.exit(main())
