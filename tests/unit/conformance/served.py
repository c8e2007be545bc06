"""The stub behind a port on loopback, for clients that want one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from unit.conformance.stub import Parts, Stub


@contextmanager
def serve(stub: Stub) -> Iterator[str]:
    """The stub behind a free port on loopback; gives its URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Head and body are written one after the other; the second would wait 40 ms for the client.
        disable_nagle_algorithm = True

        def answer(self) -> None:
            content = self.rfile.read(int(self.headers.get("content-length") or 0))
            authorization = self.headers.get("authorization", "")
            reply = stub.answer(self.command, self.path, authorization, content)
            self.send_response(reply.status)
            self.send_header("content-type", reply.kind)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            parts = Parts(reply.parts)
            try:
                for part in parts:
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                self.wfile.write(b"0\r\n\r\n")
            except OSError:  # the client left
                self.close_connection = True
            finally:
                parts.close()

        do_GET = do_POST = answer

        def log_message(self, *_: Any) -> None:
            """Tests have an output of their own."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None:
            """A client that leaves is none."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
