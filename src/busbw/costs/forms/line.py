"""line: launch, then wire; t0 + S b."""

from busbw.costs.forms.overlap import solve_overlap
from busbw.costs.shape import Shape

SHAPE = Shape("line", "launch, then wire", lambda runs: [solve_overlap(runs, 1.0, 2)])
