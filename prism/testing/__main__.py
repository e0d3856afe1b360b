"""`python -m prism.testing CALL FOLDER`: what a rank of a test is started as."""

import sys

from prism.testing.rank import call_as_rank

call_as_rank(*sys.argv[1:])
