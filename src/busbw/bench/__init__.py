"""Measuring: what to run, on which backend, how it is timed, checked, supervised and written down."""

from __future__ import annotations
