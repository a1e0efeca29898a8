"""The paper's experiments: every table and figure, ours beside the published one.

Down through the modules: ``settings`` says what decides a result, ``experiments`` which
settings a table or figure needs, ``runner`` computes them, ``results`` keeps them,
``tables`` and ``figures`` show them, ``page`` and ``report`` make one page of it all.
"""
