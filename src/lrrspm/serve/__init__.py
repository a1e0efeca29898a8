"""A model behind HTTP: a page to drop pictures on, and the API that the page uses.

``connection.py`` is what every connection keeps to, ``gate.py`` what every
request passes: who may ask, how much, for how long.
``app.py`` has the addresses, ``answers.py`` what they answer, ``work.py`` what
is computed for them, ``run.py`` the start and the end. The page is in
``static``. Needs the extra ``lrrspm[serve]``.
"""
