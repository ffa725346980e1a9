//! The programs of the matrix, and what each does.

/// A program and what it does in the fence; `matrix-ok` is what it finds there.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) script: &'static str,
    /// Whether it looks names up itself, by datagram.
    pub(super) own_resolver: bool,
}

const fn own_resolver(name: &'static str, script: &'static str) -> Case {
    Case { name, script, own_resolver: true }
}

const fn case(name: &'static str, script: &'static str) -> Case {
    Case { name, script, own_resolver: false }
}

/// The 23 programs of the measurements this gateway was designed by, and a few more before the last.
pub(super) const CASES: [Case; 27] = [
    case("curl-http", "curl -sS http://api.test:{plain}/word"),
    case("curl-https", "curl -sS https://api.test:{tls}/word"),
    case("git-https", "git clone -q https://api.test:{tls}/repo.git repo && cat repo/word"),
    case(
        "urllib",
        "python3 -c 'import urllib.request as u; print(u.urlopen(\"https://api.test:{tls}/word\").read())'",
    ),
    case("requests", "$PY -c 'import requests; print(requests.get(\"https://api.test:{tls}/word\").text)'"),
    case(
        "pip",
        "$PY -m pip -q install --no-deps --no-cache-dir --disable-pip-version-check --no-compile --retries 0 \
         --index-url https://api.test:{tls}/simple --target site sbxdemo && PYTHONPATH=site $PY -c 'import sbxdemo; print(sbxdemo.WORD)'",
    ),
    case(
        "npm",
        "echo '{}' > package.json && npm install -s --no-audit --no-fund --no-update-notifier --fetch-retries=0 --cache=cache \
         --registry=https://api.test:{tls}/npm sbxdemo && node -p 'require(\"sbxdemo\")'",
    ),
    case(
        "cargo",
        // `fetch` asks a compiler for its version first; `vendor` fetches the same and asks nobody.
        "mkdir -p src .cargo && : > src/lib.rs && \
         printf '[package]\\nname = \"own\"\\nversion = \"0.1.0\"\\nedition = \"2021\"\\n[dependencies]\\nsbxdemo = { version = \"1\", registry = \"matrix\" }\\n' > Cargo.toml && \
         printf '[registries.matrix]\\nindex = \"sparse+https://api.test:{tls}/cargo/\"\\n[net]\\nretry = 0\\n' > .cargo/config.toml && \
         CARGO_HOME=$PWD/home cargo -q vendor vendored >/dev/null && cat vendored/sbxdemo/src/lib.rs",
    ),
    case("curl-noproxy", "curl -sS --noproxy '*' https://api.test:{tls}/word"),
    case(
        "python-socket",
        "python3 -c 'import socket; s = socket.create_connection((\"api.test\", {plain})); \
         s.sendall(b\"GET /word HTTP/1.1\\r\\nHost: api.test:{plain}\\r\\nConnection: close\\r\\n\\r\\n\"); print(s.makefile().read())'",
    ),
    case("rust", "rust-fetch api.test {plain} /word"),
    case(
        "aiohttp",
        "$PY -c 'import aiohttp, asyncio\nasync def main():\n  async with aiohttp.ClientSession() as s, s.get(\"https://api.test:{tls}/word\") as r: print(await r.text())\nasyncio.run(main())'",
    ),
    case("httpx", "$PY -c 'import httpx; print(httpx.get(\"https://api.test:{tls}/word\").text)'"),
    case(
        "node-fetch",
        "node -e 'fetch(\"https://api.test:{tls}/word\").then(r => r.text()).then(t => console.log(t))'",
    ),
    case(
        "node-https",
        "node -e 'require(\"https\").get(\"https://api.test:{tls}/word\", r => r.on(\"data\", d => console.log(String(d))))'",
    ),
    own_resolver("go", "go-fetch https://api.test:{tls}/word"),
    own_resolver("go-lookup", "go-fetch lookup api.test | grep -q '^.198[.]18[.]' && echo matrix-ok"),
    case("ssh", "$SSH -p {ssh} someone@api.test word"),
    case(
        "git-ssh",
        "GIT_SSH_COMMAND=\"$SSH\" git clone -q ssh://someone@api.test:{ssh}/repo.git repo && cat repo/word",
    ),
    own_resolver("dig", "dig +short +tries=1 +time=3 api.test | grep -q '^198[.]18[.]' && echo matrix-ok"),
    case("getent-hosts", "getent hosts api.test | grep -q '^198[.]18[.]' && echo matrix-ok"),
    case("getent-ahosts", "getent ahosts api.test | grep -q '^198[.]18[.]' && echo matrix-ok"),
    case("wget", "wget --no-config {trust} -q -O - https://api.test:{tls}/word"),
    case(
        "perl",
        "perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(\"api.test:{plain}\"); \
         print $s \"GET /word HTTP/1.0\\r\\nHost: api.test:{plain}\\r\\n\\r\\n\"; print <$s>'",
    ),
    case(
        "addrconfig",
        "python3 -c 'import socket; print(socket.getaddrinfo(\"api.test\", 80, socket.AF_INET, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG))' \
         | grep -q 198.18. && echo matrix-ok",
    ),
    own_resolver("musl", "musl-fetch api.test {plain} /word"),
    // Allowed whatever is granted: it never leaves the fence. Its denied act is a service of the host.
    case(
        "own-server",
        "echo matrix-ok > word; python3 -u -m http.server --bind 127.0.0.1 0 > said 2>&1 & \
         for i in $(seq 600); do grep -q port said && break; sleep 0.05; done; \
         curl -sS --noproxy '*' http://127.0.0.1:$(sed 's/.*port \\([0-9]*\\).*/\\1/;q' said)/word; kill $!",
    ),
];
