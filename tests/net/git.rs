//! Git over HTTP: which verb reading and pushing need.

use crate::world::World;
use std::io::BufRead as _;
use std::process::{Child, Command, Stdio};

/// Serves repositories by git's own program.
const GIT_SERVER: &str = r#"
import http.server, os, subprocess, sys
root = sys.argv[1]
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"
    def any(self):
        path, _, query = self.path.partition("?")
        env = dict(os.environ, GIT_PROJECT_ROOT=root, GIT_HTTP_EXPORT_ALL="1", PATH_INFO=path, QUERY_STRING=query, REQUEST_METHOD=self.command,
                   CONTENT_TYPE=self.headers.get("content-type", ""), REMOTE_USER="x", REMOTE_ADDR="127.0.0.2")
        if self.headers.get("content-encoding"): env["HTTP_CONTENT_ENCODING"] = self.headers["content-encoding"]
        if self.headers.get("git-protocol"): env["GIT_PROTOCOL"] = self.headers["git-protocol"]
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        out = subprocess.run(["git", "http-backend"], env=env, input=body, stdout=subprocess.PIPE).stdout
        head, _, rest = out.partition(b"\r\n\r\n")
        lines = [l.split(b": ", 1) for l in head.split(b"\r\n")]
        status = next((int(v.split()[0]) for k, v in lines if k.lower() == b"status"), 200)
        self.send_response(status)
        for k, v in lines:
            if k.lower() != b"status": self.send_header(k.decode(), v.decode())
        self.send_header("content-length", str(len(rest))); self.end_headers(); self.wfile.write(rest)
    do_GET = do_POST = any
    def log_message(self, *a): pass
s = http.server.ThreadingHTTPServer(("127.0.0.2", 0), H); print(s.server_address[1], flush=True); s.serve_forever()
"#;

fn git_server(world: &World) -> (Child, String) {
    let prepare = "git init -q --bare repo.git && git -C repo.git config http.receivepack true && git init -q work && cd work && \
git -c user.name=a -c user.email=a@example.org commit -q --allow-empty -m one && git push -q ../repo.git HEAD:refs/heads/main && git -C ../repo.git symbolic-ref HEAD refs/heads/main";
    let script = world.write("git.py", GIT_SERVER);
    let at = world.path("");
    let done = Command::new("sh")
        .args(["-c", prepare])
        .current_dir(&at)
        .env("HOME", world.path("home"))
        .status()
        .unwrap();
    assert!(done.success());
    let mut server = Command::new("python3")
        .arg(script)
        .arg(&at)
        .env("HOME", world.path("home"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut port = String::new();
    std::io::BufReader::new(server.stdout.take().unwrap()).read_line(&mut port).unwrap();
    (server, port.trim().to_owned())
}

#[test]
fn reading_with_git_needs_net_get_and_pushing_net_post() {
    let world = World::new();
    let (mut server, port) = git_server(&world);
    let grants = format!("net.get: {{hosts: [\"api.test:{port}\"]}}");
    let script = format!(
        "export GIT_TERMINAL_PROMPT=0; cd /tmp && git clone -q http://api.test:{port}/repo.git c && cd c && git log --format=%s; \
git -c user.name=a -c user.email=a@example.org commit -q --allow-empty -m two; git push -q origin HEAD:refs/heads/main 2>/dev/null && echo pushed || echo refused"
    );
    let ran = world.run(&grants, &script);
    assert_eq!(ran.stdout, "one\nrefused\n", "{ran:?}");
    let ran = world.run(&format!("{grants}\nnet.post: {{hosts: [\"api.test:{port}\"]}}"), &script);
    assert_eq!(ran.stdout, "one\npushed\n", "{ran:?}");
    let _ = (server.kill(), server.wait());
}
