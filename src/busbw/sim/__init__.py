"""Predicting: a schedule on a machine, from 2 GPUs to 100 000.

patterns.py       a schedule as sets of flows that happen together, each so many times over
fairness.py       max-min fair rates: compiled, and in numpy
wires.py          routes, loads, and one step of a pattern in lockstep or from event to event
cuts.py           all pairs as bytes across cuts
steps.py          rungs 1 to 3: steps with a barrier after each
dependencies.py   a schedule as messages, each with what it waits for
fluid.py          rung 4: messages that share wires and wait for their data alone
prediction.py     what comes out: time, where it goes, the binding wire
simulate.py       simulate(): chooses the rung
"""

from busbw.sim.prediction import RUNGS, Binding, LinkUse, Prediction, Span
from busbw.sim.simulate import default_algorithm, simulate

__all__ = ["RUNGS", "Binding", "LinkUse", "Prediction", "Span", "default_algorithm", "simulate"]
