"""The algorithms, one file each; `busbw.core.schedule.ALGORITHMS` lists them by file name."""
