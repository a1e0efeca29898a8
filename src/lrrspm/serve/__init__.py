"""Serve a model over HTTP: an API, and a web page that uses it.

``connection.py`` guards connections, ``middleware.py`` requests. ``app.py``
has the routes, ``schemas.py`` their JSON, ``errors.py`` their error
responses, ``worker.py`` the computation, ``runner.py`` start and shutdown.
The page is in ``static``. Needs the extra ``lrrspm[serve]``.
"""
