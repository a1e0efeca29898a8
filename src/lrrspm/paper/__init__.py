"""The paper's experiments: every table and figure, ours next to the published one.

``settings`` holds everything that determines a result, ``experiments`` lists the settings of
each table and figure, ``runner`` computes them, ``results`` stores them, ``tables``, ``studies``
and ``figures`` show them, and ``report`` puts it all on one page.
"""
