"""A host as its files show it: sysfs, procfs, and a few commands that only read. Doctor and topologies look through it."""

from busbw.host.files import COMMANDS, Answer, Host

__all__ = ["COMMANDS", "Answer", "Host"]
