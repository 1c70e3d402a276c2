"""Stands in for huggingface.co: a hub with one model of one file, at one commit."""

import hashlib
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "c0ffee" + 34 * "0"


@contextmanager
def hub_with(folder, file):
    """The variables with which the hub's library asks this server, and keeps its cache in `folder`."""
    content = file.read_bytes()

    class Hub(BaseHTTPRequestHandler):
        def do_HEAD(self):
            if self.path != "/org/digits/resolve/main/model.safetensors":
                self.send_response(404)
                self.send_header("X-Error-Code", "EntryNotFound")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(200)
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        do_GET = do_HEAD

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield {
            "HF_HOME": str(folder),
            "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
        }
    finally:
        server.shutdown()
        server.server_close()
