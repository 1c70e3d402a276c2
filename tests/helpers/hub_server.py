"""Stands in for huggingface.co: a hub with one model, at one commit."""

import base64
import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "c0ffee" + 34 * "0"


@contextmanager
def hub_with(folder, *files):
    """The variables with which the hub's library asks this server, and keeps its cache in `folder`."""
    contents = {
        f"/org/digits/resolve/{revision}/{file.name}": file.read_bytes()
        for file in files
        for revision in ("main", COMMIT)
    }

    made = []  # what was asked of the hub besides

    def endpoint():
        return f"http://127.0.0.1:{server.server_port}"

    class Hub(BaseHTTPRequestHandler):
        def do_HEAD(self):
            content = contents.get(self.path)
            if content is None:
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

        def do_POST(self):
            """Takes a model as a hub does: make it, ask how, commit; nobody without a token."""
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            while self.headers.get("Transfer-Encoding") == "chunked":
                part = self.rfile.read(int(self.rfile.readline(), 16))
                self.rfile.readline()
                if not part:
                    break
                body += part
            if "Authorization" not in self.headers:
                self.answer({"error": "who are you?"}, 401)
            elif "preupload" in self.path:
                files = [file["path"] for file in json.loads(body)["files"]]
                how = {"uploadMode": "regular", "shouldIgnore": False}
                self.answer({"files": [{"path": path, **how} for path in files]})
            elif "/commit/" in self.path:
                for line in map(json.loads, body.splitlines()):
                    if line["key"] == "file":
                        content = base64.b64decode(line["value"]["content"])
                        for revision in ("main", COMMIT):
                            path = f"/org/digits/resolve/{revision}/{line['value']['path']}"
                            contents[path] = content
                self.answer(
                    {"commitOid": COMMIT, "commitUrl": f"{endpoint()}/org/digits/commit/{COMMIT}"}
                )
            else:
                made.append((self.path, json.loads(body)))
                self.answer({"url": f"{endpoint()}/org/digits", "errors": [], "warnings": []})

        def answer(self, value, code=200):
            text = json.dumps(value).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield {
            "HF_HOME": str(folder),
            "HF_ENDPOINT": endpoint(),
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
        }
    finally:
        server.shutdown()
        server.server_close()
