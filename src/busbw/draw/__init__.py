"""Schematics: what a collective does, how a schedule goes step by step, what a machine is made of.

    scene.py            the noun: boxes, texts and lines with places and roles; plain data that tests check
    overlaps.py         what in a Scene lies on what it should not
    colours.py          role -> colour, in two themes
    render_svg.py       Scene -> SVG, PNG; the only file that knows SVG
    replay.py           Schedule -> what each slot of each rank holds after each round
    cells.py            one slot as boxes: how much of its sum it holds, and whose
    primitives.py       the vocabulary on one page, from the collectives' postconditions
    ring.py             ranks around a ring: the places of an animation, and one panel a step
    rows.py             ranks as rows, time to the right: for schedules that are no ring
    animation.py        Schedule -> HTML that plays it (animation.js, animation.css)
    loads.py            Schedule x Topology -> how busy each direction of each link is
    machine.py          Topology -> Scene, with host.py, network.py, grid.py, wires.py, captions.py
    images.py           the docs' images

A drawing is a Scene first, so whether anything overlaps is a question to plain data.
"""
