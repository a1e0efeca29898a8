"""The paper's experiments: every table, figure and claim, ours next to the published one.

``settings`` holds everything that determines a result, ``experiments`` lists the settings of
each table and figure, ``runner`` computes them, ``results`` stores them. ``tables``, ``studies``,
``reference``, ``figures`` and ``schematics`` show them, ``agreement`` and ``claims`` judge them,
and ``report`` puts it all on one page.
"""
