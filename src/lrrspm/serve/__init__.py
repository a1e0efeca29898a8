"""Serve a model over HTTP: an API, and a web page that uses it.

``connection.py`` guards connections, ``middleware.py`` requests. ``app.py``
has the routes, ``schemas.py`` their JSON, ``errors.py`` their error
responses, ``runner.py`` start and shutdown. ``worker.py`` has images computed
by ``processes.py``: ``nursery.py`` forks them, and ``model.py`` is what they do.
The page is in ``static``. Needs the extra ``lrrspm[serve]``.
"""
