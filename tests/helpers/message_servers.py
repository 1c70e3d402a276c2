"""A mail server and a web server on this machine, that keep what they get."""

import socketserver
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class MailSession(socketserver.StreamRequestHandler):
    """As much of SMTP as a client needs to hand over a mail."""

    def handle(self):
        self.answer("220 ready")
        while line := self.rfile.readline():
            word = line.split()[0].upper()
            if word == b"DATA":
                self.answer("354 go on")
                mail = iter(lambda: self.rfile.readline().decode(), ".\r\n")
                self.server.received.append("".join(mail))
            self.answer("221 bye" if word == b"QUIT" else "250 ok")
            if word == b"QUIT":
                return

    def answer(self, text):
        self.wfile.write(f"{text}\r\n".encode())


class WebSession(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append((self.path, body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


@contextmanager
def serving(server):
    """(port, what it received) while the server runs in a thread."""
    server.received = []
    threading.Thread(target=server.serve_forever, args=[0.05], daemon=True).start()
    try:
        yield server.server_address[1], server.received
    finally:
        server.shutdown()
        server.server_close()


def mail_server():
    return serving(socketserver.ThreadingTCPServer(("127.0.0.1", 0), MailSession))


def web_server():
    return serving(ThreadingHTTPServer(("127.0.0.1", 0), WebSession))
