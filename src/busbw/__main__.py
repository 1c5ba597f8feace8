"""`python -m busbw` is the command line."""

import sys

from busbw.cli import main

sys.exit(main())
