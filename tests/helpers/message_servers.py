"""A mail server and a web server on this machine, that keep what they get."""

import socketserver
import ssl
import subprocess
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class MailSession(socketserver.StreamRequestHandler):
    """As much of SMTP as a client needs to log in and hand over a mail, by TLS where the server has a context."""

    def handle(self):
        self.answer("220 ready")
        while line := self.rfile.readline():
            self.server.lines.append(line.decode().strip())
            word = line.split()[0].upper()
            if word == b"EHLO":
                self.answer("250-ready\r\n250-STARTTLS\r\n250 AUTH PLAIN")
                continue
            if word == b"STARTTLS":
                self.answer("220 go on")
                if not self.encrypt():
                    return
                continue
            if word == b"AUTH":
                self.answer("235 welcome")
                continue
            if word == b"DATA":
                self.answer("354 go on")
                mail = iter(lambda: self.rfile.readline().decode(), ".\r\n")
                self.server.received.append("".join(mail))
            self.answer("221 bye" if word == b"QUIT" else "250 ok")
            if word == b"QUIT":
                return

    def answer(self, text):
        self.wfile.write(f"{text}\r\n".encode())

    def encrypt(self):
        """False where the client does not trust the certificate."""
        try:
            self.request = self.server.context.wrap_socket(self.request, server_side=True)
        except OSError:
            return False
        self.setup()
        return True


class Redirecting(BaseHTTPRequestHandler):
    """Sends each message on to another address."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(307)
        self.send_header("Location", self.server.location)
        self.end_headers()

    def log_message(self, *_):
        pass


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


@contextmanager
def mail_server(folder):
    """(port, the mails, the lines that it got); its certificate is of its own, in folder/cert.pem."""
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), MailSession)
    server.lines = []
    server.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.context.load_cert_chain(*make_certificate(folder))
    with serving(server) as (port, mails):
        yield port, mails, server.lines


def make_certificate(folder):
    """A certificate for localhost that nobody signed, and its key."""
    names = (folder / "cert.pem", folder / "key.pem")
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    words += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    words += ["-out", names[0], "-keyout", names[1]]
    subprocess.run(words, check=True, capture_output=True)
    return names


@contextmanager
def redirecting_server(location):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Redirecting)
    server.location = location
    with serving(server) as (port, _):
        yield port


def web_server():
    return serving(ThreadingHTTPServer(("127.0.0.1", 0), WebSession))
