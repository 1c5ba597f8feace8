"""Machines by name, one file a family; each defines PRESETS, a tuple of `busbw.topologies.preset.Preset`."""
