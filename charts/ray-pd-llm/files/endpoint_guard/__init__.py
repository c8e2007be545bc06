"""What stands between a client and Ray Serve's OpenAI-compatible application.

An ASGI application around another one (`app.Guard`); it needs nothing but Python. `ray_ingress` hangs it
into Ray Serve's ingress, where the chart mounts this folder from a ConfigMap.

    app          a request from the first byte to the last
    settings     what an operator may set, and may change while the service runs
    keys         API keys, read again when their Secret changes
    limits       requests at once and in the queue, requests and tokens a minute
    body         what may be in a request
    errors       OpenAI's error envelope, and an engine's words without its inside
    upstream     asking the application behind, and its answer
    stream       an answer's events: usage, times, errors
    choices      one request as several, where an engine cannot give several choices
    record       what is written down of a request: log, metrics, Server-Timing
    ray_ingress  the ingress class that Ray Serve is told to use
    ray_engine   what Ray Serve asks when it starts an engine; no part of the guard, it travels with it
"""
