"""All rows as one set of equations in a few parameters, evaluated for many sets of parameters at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from busbw.core.schedule import Ints
from busbw.core.topology import PATH_CLASSES, Floats
from busbw.sim.calibrating.curves import Rows, Terms
from busbw.sim.calibrating.groups import ANY

COSTS = ("launch", "message", "latency", "reducing", "cap:CLASS", "adding:CLASS")
"""Parameters that are no column: seconds a call; seconds a message; both of these, one number; seconds a byte that is added;
bytes a second of a flow of a path class, and of one that its target adds."""


class Equations:
    """T of every row as a function of the parameters, which are logarithms of speeds and costs.

    `free` has the column of each parameter that is a speed; `costs` the names (of COSTS) of the others, after them.
    """

    def __init__(
        self, rows: Rows, terms: Sequence[Terms], which: Ints, free: Sequence[int], costs: Sequence[str]
    ) -> None:
        self.rows, self.free, self.costs = rows, list(free), list(costs)
        row, step = [], []
        for i, t in enumerate(which.tolist()):
            row += [i] * len(terms[t].times)
            step += [(t, k) for k in range(len(terms[t].times))]
        self.row = np.array(row, np.int64)
        self.starts = np.flatnonzero(np.concatenate([[True], self.row[1:] != self.row[:-1]]))

        def column(name: str) -> Floats:
            return np.array([getattr(terms[t], name)[k] for t, k in step], np.float64)

        self.size = rows.size_bytes[self.row]
        self.times, self.latency = column("times"), column("latency_s")
        self.loads = np.array([terms[t].loads[k][self.free] for t, k in step]).reshape(len(step), len(self.free))
        self.fixed, self.reduced = column("fixed_loads"), column("reduced")
        self.capped = {name: _capped(terms, step, name) for name in self.costs if ":" in name}
        self.fill = np.array([terms[t].fill for t, _ in step])

    @property
    def names(self) -> int:
        """Parameters."""
        return len(self.free) + len(self.costs)

    def seconds(self, parameters: Floats) -> Floats:
        """[sets, rows] for parameters of shape [sets, parameters]."""
        values = np.exp(parameters)
        speeds = values[:, : len(self.free)]
        cost = {name: values[:, len(self.free) + i] for i, name in enumerate(self.costs)}
        sets = len(values)
        zero = np.zeros(sets)
        slow = np.broadcast_to(self.fixed, (sets, len(self.fixed))).copy()
        for k in range(len(self.free)):
            np.maximum(slow, self.loads[:, k] / speeds[:, k, None], out=slow)
        for name, share in self.capped.items():
            np.maximum(slow, share / cost[name][:, None], out=slow)
        both = cost.get("latency", zero)
        alpha = self.latency + cost.get("message", both)[:, None]
        wire = self.size * slow
        step = alpha + wire + cost.get("reducing", zero)[:, None] * self.size * self.reduced
        step = self.times * step + self.fill * alpha
        return np.add.reduceat(step, self.starts, axis=1) + cost.get("launch", both)[:, None]

    def errors(self, parameters: Floats) -> Floats:
        """[sets, rows] ln(predicted / measured)."""
        return np.log(self.seconds(parameters) / self.rows.time_s)

    def start(self) -> Floats:
        """[parameters] a first guess: each speed just what the fastest row needs of it, costs from the shortest rows."""
        with np.errstate(divide="ignore"):
            needed = (self.times * self.size / self.rows.time_s[self.row])[:, None] * self.loads
        sums = np.add.reduceat(needed, self.starts, axis=0)
        speeds = np.where(sums.max(axis=0) > 0, sums.max(axis=0), ANY)  # what no row loads does not limit
        shortest = float(self.rows.time_s.min())
        steps = float(np.add.reduceat(self.times, self.starts).max())
        guesses = {
            "launch": 0.7 * shortest,
            "message": shortest / max(steps, 1.0),
            "latency": shortest / max(steps + 1, 1.0),
            "reducing": 1e-13,
        }
        for name, share in self.capped.items():
            needed = self.times * self.size / self.rows.time_s[self.row] * share
            guesses[name] = float(np.add.reduceat(needed, self.starts).max()) or ANY
        guess: Floats = np.log(np.concatenate([speeds, [guesses[name] for name in self.costs]]))
        return guess


def _capped(terms: Sequence[Terms], step: Sequence[tuple[int, int]], name: str) -> Floats:
    """[entries] share of S of the largest flow that a cap is for."""
    kind, _, path_class = name.partition(":")
    index = PATH_CLASSES.index(path_class)
    return np.array([(terms[t].adding if kind == "adding" else terms[t].caps)[k][index] for t, k in step])
