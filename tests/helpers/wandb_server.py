"""As much of a W&B server as `wandb sync` needs: it keeps the history of each run."""

import gzip
import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from message_servers import serving

BUCKET = {"id": "x", "displayName": "x", "config": "{}", "historyLineCount": 0}
PROJECT = {"id": "p", "name": "project", "entity": {"id": "e", "name": "entity"}}


class WandbSession(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        answer = {}
        if self.path == "/graphql":
            answer = self.answer_to(json.loads(body))
        elif self.path.endswith("/file_stream"):
            self.keep(self.path.split("/")[-2], json.loads(body))
        text = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_PUT = do_POST

    def answer_to(self, query):
        if query.get("operationName") == "RunResumeStatus":
            return {"data": {"model": PROJECT | {"bucket": None}}}
        if query.get("operationName") != "UpsertBucket":
            return {"data": None, "errors": [{"message": "unknown here"}]}
        bucket = BUCKET | {"name": query["variables"].get("name"), "project": PROJECT}
        return {"data": {"upsertBucket": {"bucket": bucket, "inserted": True}}}

    def keep(self, run_id, stream):
        """Lines from an offset on replace those that were there, as on W&B's server."""
        part = stream.get("files", {}).get("wandb-history.jsonl")
        if part:
            lines = self.server.histories.setdefault(run_id, [])
            lines[part["offset"] :] = part["content"]

    def log_message(self, *_):
        pass


@contextmanager
def wandb_server():
    """(address, history lines by run id) while the server runs."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), WandbSession)
    server.histories = {}
    with serving(server) as (port, _):
        yield f"http://127.0.0.1:{port}", server.histories
