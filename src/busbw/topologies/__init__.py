"""Machines: presets, and readers of what other tools say of one."""
