"""The figures, one file each; `busbw.plots.figure.FIGURES` lists them by file name."""
