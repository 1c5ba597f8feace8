"""Comparing: two runs, what changed and whether it is real; and gates that a run has to pass."""

from busbw.comparing.comparison import Comparison
from busbw.comparing.gate import Gate, check
from busbw.comparing.two_runs import compare

__all__ = ["Comparison", "Gate", "check", "compare"]
