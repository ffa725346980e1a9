"""What the programs of the matrix reach: packages, crates and repositories over HTTPS, and a server for ssh.

    origin.py DIR CERTIFICATE KEY

Serves DIR, which it fills first, at 127.0.0.2. The first line it prints has the ports, as JSON; after that every
request and every command is one line.
"""

import asyncio
import base64
import hashlib
import http.server
import io
import json
import os
import pathlib
import ssl
import subprocess
import sys
import tarfile
import threading
import zipfile

import asyncssh

IP = "127.0.0.2"
NAME = "api.test"
WORD = "matrix-ok"
TOP = pathlib.Path(sys.argv[1])


def tell(line):
    print(line, flush=True)


def put(path, content):
    path = TOP / path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def archive(files):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text.encode()))
    return made.getvalue()


def fill(base):
    """One package for each of pip, npm and cargo, and a repository, all carrying the word."""
    put("word", WORD)
    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.writestr("sbxdemo.py", f"WORD = '{WORD}'\n")
        packed.writestr("sbxdemo-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: sbxdemo\nVersion: 1.0\n")
        packed.writestr("sbxdemo-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        packed.writestr("sbxdemo-1.0.dist-info/RECORD", "")
    put("simple/sbxdemo/sbxdemo-1.0-py3-none-any.whl", wheel.getvalue())
    put("simple/sbxdemo/index.html", '<a href="sbxdemo-1.0-py3-none-any.whl">sbxdemo</a>')

    package = {"name": "sbxdemo", "version": "1.0.0", "main": "index.js"}
    tarball = archive({"package/package.json": json.dumps(package), "package/index.js": f"module.exports = '{WORD}'\n"})
    put("npm/sbxdemo.tgz", tarball)
    digest = base64.b64encode(hashlib.sha512(tarball).digest()).decode()
    package["dist"] = {"tarball": f"{base}/npm/sbxdemo.tgz", "integrity": f"sha512-{digest}"}
    about = {"name": "sbxdemo", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": package}}
    put("npm/sbxdemo/index.html", json.dumps(about))

    manifest = '[package]\nname = "sbxdemo"\nversion = "1.0.0"\nedition = "2021"\n'
    crate = archive({"sbxdemo-1.0.0/Cargo.toml": manifest, "sbxdemo-1.0.0/src/lib.rs": f"// {WORD}\n"})
    put("crates/sbxdemo.crate", crate)
    put("cargo/config.json", json.dumps({"dl": f"{base}/crates/{{crate}}.crate"}))
    entry = {"name": "sbxdemo", "vers": "1.0.0", "deps": [], "features": {}, "yanked": False}
    put("cargo/sb/xd/sbxdemo", json.dumps({**entry, "cksum": hashlib.sha256(crate).hexdigest()}) + "\n")

    git = lambda *words: subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *words], cwd=TOP, check=True)
    git("init", "-q", "-b", "main", "work")
    put("work/word", WORD)
    git("-C", "work", "add", "word")
    git("-C", "work", "commit", "-q", "-m", "one")
    git("clone", "-q", "--bare", "work", "repo.git")


class Answer(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, *rest):
        super().__init__(*rest, directory=str(TOP))

    def do_GET(self):
        if ".git/" in self.path:
            return self.git()
        super().do_GET()

    def do_POST(self):
        self.git()

    def git(self):
        path, _, query = self.path.partition("?")
        environment = {
            "PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "GIT_PROJECT_ROOT": str(TOP), "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": self.command, "REMOTE_ADDR": IP,
            "CONTENT_TYPE": self.headers.get("content-type", ""), "HTTP_CONTENT_ENCODING": self.headers.get("content-encoding", ""),
            "GIT_PROTOCOL": self.headers.get("git-protocol", ""),
        }
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        said = subprocess.run(["git", "http-backend"], env=environment, input=body, stdout=subprocess.PIPE).stdout
        head, _, rest = said.partition(b"\r\n\r\n")
        lines = [line.decode().split(": ", 1) for line in head.split(b"\r\n")]
        self.send_response(next((int(value.split()[0]) for name, value in lines if name.lower() == "status"), 200))
        for name, value in lines:
            if name.lower() != "status":
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        self.wfile.write(rest)

    def log_message(self, _format, *words):
        tell(f"http {words[0] if words else ''}")


class Secure(http.server.ThreadingHTTPServer):
    """Shakes hands in the thread of the connection, so that one who does not finish holds up nobody."""

    daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    def finish_request(self, request, client):
        request.settimeout(20)
        with self.context.wrap_socket(request, server_side=True) as stream:
            super().finish_request(stream, client)

    def handle_error(self, _request, _client):
        tell(f"broken {sys.exc_info()[1]}")


async def serve_command(process):
    tell(f"ssh {process.command}")
    if process.command and process.command.startswith("git-upload-pack"):
        inner = await asyncio.create_subprocess_exec(
            "git-upload-pack", str(TOP / "repo.git"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        await process.redirect(stdin=inner.stdin, stdout=inner.stdout, stderr=inner.stderr)
        process.exit(await inner.wait())
    else:
        process.stdout.write(f"{WORD}\n".encode())
        process.exit(0)


class Door(asyncssh.SSHServer):
    def begin_auth(self, _username):
        return False


async def main():
    Secure.context.load_cert_chain(sys.argv[2], sys.argv[3])
    secure = Secure((IP, 0), Answer)
    plain = http.server.ThreadingHTTPServer((IP, 0), Answer)
    https = secure.server_address[1]
    fill(f"https://{NAME}:{https}")
    for server in (secure, plain):
        threading.Thread(target=server.serve_forever, daemon=True).start()
    key = asyncssh.generate_private_key("ssh-ed25519")
    shell = await asyncssh.create_server(Door, IP, 0, server_host_keys=[key], process_factory=serve_command, encoding=None)
    tell(json.dumps({"https": https, "http": plain.server_address[1], "ssh": shell.get_port()}))
    await asyncio.Event().wait()


asyncio.run(main())
