"""Calibrating: the few speeds and costs of a machine that reproduce its measured rows.

groups.py         links that are alike, and the speeds that may be asked for
rivals.py         descriptions of one machine: ways of traffic, wires that limit
curves.py         rows as equations
equations.py      all of them, for many sets of parameters at once
least_squares.py  robust relative least squares, and intervals by profiles
calibration.py    what comes out
calibrate.py      calibrate()
"""

from busbw.sim.calibrating.calibrate import calibrate
from busbw.sim.calibrating.calibration import Calibration, LeftOut, Parameter, RivalFit

__all__ = ["Calibration", "LeftOut", "Parameter", "RivalFit", "calibrate"]
