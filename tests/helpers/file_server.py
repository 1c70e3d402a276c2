"""Stands in for the server of a public data set: one file, which may be cut on its way."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FileServer:
    """What it serves and how, which a test may change; `asked` are the first bytes that were asked for."""

    def __init__(self, content):
        self.content = content
        self.cut_after = None  # bytes of an answer, then the connection ends
        self.knows_ranges = True
        self.asked = []
        self.url = ""


@contextmanager
def serve(content):
    state = FileServer(content)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            start = int(self.headers.get("Range", "bytes=0-")[len("bytes=") : -1])
            state.asked.append(start)
            if "missing" in self.path:
                self.send_error(404)
                return
            if not state.knows_ranges:
                start = 0
            if start and start >= len(state.content):
                self.send_error(416)
                return
            body = state.content[start:]
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: state.cut_after])

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    state.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
