"""The fake backend's noise: seeded call times that are autocorrelated, two-moded, shifted and drifting, as real ones.

One call takes::

    base_s * launch * level * exp(sigma * z) + slow * second_mode_s

- `z` is a stationary first-order autoregression with unit variance, ``z[t] = a z[t-1] + sqrt(1 - a^2) e[t]`` with
  ``a = autocorrelation``; `sigma` is chosen so that the factor's coefficient of variation is `jitter`. The factor is
  lognormal: never negative, skewed to the right, median 1.
- `slow` is 0 or 1: each call keeps its predecessor's mode with probability `second_mode_persistence`, else it is slow
  with probability `second_mode_share`. So the long-run share is `second_mode_share` and the lag-1 correlation of the
  mode is `second_mode_persistence`. (A work thread that waits for the scheduler's next tick.)
- `launch` is the luck of the launch, the same for all its ranks: a lognormal factor (median 1, coefficient of variation
  `launch_jitter`) that all rows share, times one that each row draws for itself (`row_jitter`: where its buffers lie).
  No number of calls averages it out; that takes more launches.
- `level` is ``(1 + level_shift)`` from call `level_shift_at` on, times ``1 + drift * t`` at call t, times
  ``1 + warmup exp(-t / warmup_calls)``.

Without second mode, shift, drift, warm-up and launch jitter the long-run median of a call is exactly `base_s`.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import numpy.typing as npt

from busbw.errors import UsageError
from busbw.units import parse_time

__all__ = ["NoiseModel", "parse_noise"]

_NEGLIGIBLE = 1e-17
_ALL_RANKS = 1 << 31
"""Stands where a rank's number does, for what all ranks share."""


@dataclasses.dataclass(slots=True)
class NoiseModel:
    """A stateful, seeded source of call times for one rank; a seed gives the same calls however they are batched.

    Lengths are counted in calls since the model was made. `rank` and `launch` select independent streams of the same
    seed. Say `begin_row` before each row.
    """

    jitter: float = 0.0
    autocorrelation: float = 0.0
    second_mode_s: float = 0.0
    second_mode_share: float = 0.0
    second_mode_persistence: float = 0.0
    level_shift: float = 0.0
    level_shift_at: int = 0
    drift: float = 0.0
    warmup: float = 0.0
    warmup_calls: float = 1.0
    launch_jitter: float = 0.0
    row_jitter: float = 0.0
    seed: int = 0
    rank: int = 0
    launch: int = 0
    _calls: int = dataclasses.field(default=0, init=False, repr=False, compare=False)
    _z: float = dataclasses.field(default=0.0, init=False, repr=False, compare=False)
    _slow: bool = dataclasses.field(default=False, init=False, repr=False, compare=False)
    _jitter_rng: np.random.Generator = dataclasses.field(init=False, repr=False, compare=False)
    _mode_rng: np.random.Generator = dataclasses.field(init=False, repr=False, compare=False)
    _launch_rng: np.random.Generator = dataclasses.field(init=False, repr=False, compare=False)
    _launch_factor: float = dataclasses.field(default=1.0, init=False, repr=False, compare=False)
    _row_factor: float = dataclasses.field(default=1.0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _require(self.jitter >= 0, "jitter", self.jitter, "at least 0")
        _require(0 <= self.autocorrelation < 1, "autocorrelation", self.autocorrelation, "in [0, 1)")
        _require(self.second_mode_s >= 0, "second_mode_s", self.second_mode_s, "at least 0")
        _require(0 <= self.second_mode_share <= 1, "second_mode_share", self.second_mode_share, "in [0, 1]")
        _require(
            0 <= self.second_mode_persistence < 1, "second_mode_persistence", self.second_mode_persistence, "in [0, 1)"
        )
        _require(self.level_shift > -1, "level_shift", self.level_shift, "above -1")
        _require(self.warmup > -1, "warmup", self.warmup, "above -1")
        _require(self.warmup_calls > 0, "warmup_calls", self.warmup_calls, "above 0")
        _require(self.launch_jitter >= 0, "launch_jitter", self.launch_jitter, "at least 0")
        _require(self.row_jitter >= 0, "row_jitter", self.row_jitter, "at least 0")
        streams = [self.seed, self.rank] if self.launch == 0 else [self.seed, self.rank, self.launch]
        jitter_seed, mode_seed = np.random.SeedSequence(streams).spawn(2)
        self._launch_rng = np.random.default_rng([self.seed, self.launch, _ALL_RANKS])
        self._launch_factor = math.exp(_sigma(self.launch_jitter) * self._launch_rng.standard_normal())
        self._jitter_rng = np.random.default_rng(jitter_seed)
        self._mode_rng = np.random.default_rng(mode_seed)
        self._z = float(self._jitter_rng.standard_normal())
        self._slow = bool(self._mode_rng.random() < self.second_mode_share)

    def begin_row(self) -> None:
        """The next calls are those of another row."""
        self._row_factor = math.exp(_sigma(self.row_jitter) * self._launch_rng.standard_normal())

    def draw(self, base_s: float, n: int) -> npt.NDArray[np.float64]:
        """Seconds of the next `n` consecutive calls whose undisturbed time is `base_s`."""
        time_s = np.full(n, base_s * self._launch_factor * self._row_factor)
        if n == 0:
            return time_s
        index = np.arange(self._calls, self._calls + n)
        if self.jitter:
            time_s *= np.exp(_sigma(self.jitter) * self._next_z(n))
        if self.level_shift:
            time_s[index >= self.level_shift_at] *= 1 + self.level_shift
        if self.drift:
            time_s *= np.maximum(1 + self.drift * index, 0.0)
        if self.warmup:
            time_s *= 1 + self.warmup * np.exp(-index / self.warmup_calls)
        if self.second_mode_s and self.second_mode_share:
            time_s += self.second_mode_s * self._next_slow(n)
        self._calls += n
        return time_s

    def _next_z(self, n: int) -> npt.NDArray[np.float64]:
        a = self.autocorrelation
        innovation = math.sqrt(1 - a * a) * self._jitter_rng.standard_normal(n)
        innovation[0] += a * self._z
        z = _autoregression(innovation, a)
        self._z = float(z[-1])
        return z

    def _next_slow(self, n: int) -> npt.NDArray[np.bool_]:
        u = self._mode_rng.random((n, 2))
        redrawn = np.concatenate(([True], u[:, 0] >= self.second_mode_persistence))
        mode = np.concatenate(([self._slow], u[:, 1] < self.second_mode_share))
        last_redraw = np.maximum.accumulate(np.where(redrawn, np.arange(n + 1), 0))
        slow: npt.NDArray[np.bool_] = mode[last_redraw][1:]
        self._slow = bool(slow[-1])
        return slow


def parse_noise(text: str, *, seed: int = 0, rank: int = 0, launch: int = 0) -> NoiseModel:
    """Read a noise model: ``jitter=0.05,autocorrelation=0.8,second_mode=4ms,second_mode_share=0.15``.

    Keys are the fields of `NoiseModel`; `second_mode` is `second_mode_s` with a unit (s, ms, us, ns), fractions may be
    written as ``5%``, and a `seed` in the text wins over the argument, as do the others. An empty text is a quiet machine.
    Raises UsageError with the key, the value and the choices.
    """
    values: dict[str, float | int] = {"seed": seed, "rank": rank, "launch": launch}
    for item in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals:
            raise UsageError(f"noise {item!r}: write key=value; keys are {', '.join(_KEYS)}")
        if key not in _KEYS:
            raise UsageError(f"noise {key!r} is unknown; keys are {', '.join(_KEYS)}")
        try:
            if key == "second_mode":
                values["second_mode_s"] = parse_time(value)
            elif key in _COUNTS:
                values[key] = int(value)
            else:
                values[key] = _parse_fraction(value)
        except (ValueError, UsageError):
            example = "4ms" if key == "second_mode" else "500" if key in _COUNTS else "0.05 or 5%"
            raise UsageError(f"noise {key}={value!r} cannot be read; write it as {key}={example}") from None
    return NoiseModel(**values)  # type: ignore[arg-type]  # counts are int, the rest float: the keys above decide


_COUNTS = ("level_shift_at", "seed", "rank", "launch")
_KEYS = tuple(
    "second_mode" if field.name == "second_mode_s" else field.name
    for field in dataclasses.fields(NoiseModel)
    if field.init
)


def _sigma(variation: float) -> float:
    """The logarithm's deviation of a lognormal factor with this coefficient of variation."""
    return math.sqrt(math.log1p(variation**2))


def _parse_fraction(text: str) -> float:
    return float(text[:-1]) / 100 if text.endswith("%") else float(text)


def _require(holds: bool, name: str, value: float, rule: str) -> None:
    if not holds:
        raise UsageError(f"noise {name} is {value:g}; it must be {rule}")


def _autoregression(innovation: npt.NDArray[np.float64], a: float) -> npt.NDArray[np.float64]:
    """``y[t] = a y[t-1] + innovation[t]`` in O(n log(1/log a)) array operations.

    After step k, y holds the sum of the last 2^k terms ``a^j innovation[t-j]``; it is complete once a^(2^k) vanishes.
    """
    y = innovation
    step, factor = 1, a
    while factor > _NEGLIGIBLE and step < len(y):
        later = y[step:] + factor * y[:-step]
        y = np.concatenate((y[:step], later))
        step, factor = 2 * step, factor * factor
    return y
