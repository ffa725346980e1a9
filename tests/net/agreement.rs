//! What `decide` says and what an origin received are the same, for random grants and requests.

use crate::origin::{Origin, Speaks};
use crate::world::{Seeded, World, issue, seeds};
use sbx::capability::Spec;
use sbx::{Facts, Policy, Request, decide};

/// Numbers that look random and are the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.roll(of.len())]
    }
}

const HOSTS: &[&str] =
    &["api.test", "www.api.test", "a.www.api.test", "other.test", "xapi.test", "inside.test"];
const METHODS: &[&str] = &["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"];
const PATHS: &[&str] = &[
    "/",
    "/a/b?c=d",
    "/x/info/refs?service=git-upload-pack",
    "/x/info/refs?service=git-receive-pack",
    "/x/git-upload-pack",
    "/x/git-receive-pack",
    "/x/../git-upload-pack",
    "/%2e",
];
const PATTERNS: &[&str] =
    &["api.test", "*.api.test", "*.test", "*", "other.test", "a.www.api.test", "inside.test"];
/// Where `inside.test` leads, which only a grant that names it reaches.
const INSIDE: std::net::IpAddr = std::net::IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 2));
const VERBS: &[&str] = &["net.get", "net.post", "net.put", "net.delete"];

#[test]
fn decide_and_the_origin_agree() {
    seeds(20).into_iter().for_each(agree);
}

fn agree(seed: u64) {
    let _told = Seeded(seed);
    let mut dice = Dice(seed);
    let world = World::new();
    let issued = issue(HOSTS);
    world.write("ws/origin.pem", &issued.root);
    let origins = [
        ("http", Origin::start("127.0.0.2", Speaks::Http)),
        ("http", Origin::start("127.0.0.2", Speaks::Http)),
        ("https", Origin::start("127.0.0.2", Speaks::Https(issued.config))),
    ];
    let reach = |host: &str| if host == "inside.test" { "private" } else { "public" };
    world
        .resolve(&HOSTS.iter().map(|host| format!("{host} 127.0.0.2 {}\n", reach(host))).collect::<String>());
    for round in 0..12 {
        let specs: Vec<String> = (0..=dice.roll(3))
            .map(|_| {
                let port = match dice.roll(3) {
                    0 => format!(":{}", origins[dice.roll(3)].1.port()),
                    _ => String::new(),
                };
                format!("{}{{hosts=[\"{}{port}\"]}}", dice.pick(VERBS), dice.pick(PATTERNS))
            })
            .collect();
        let held: Vec<Spec> = specs.iter().map(|spec| Spec::parse(spec).unwrap()).collect();
        let policy = Policy::from_specs("tester", &held, &Facts::new("/home/u")).unwrap();
        let mut script = String::from("import http.client, subprocess\nc = ssl.create_default_context()\n");
        let mut expected = Vec::new();
        for number in 0..24 {
            let (scheme, origin) = dice.pick(&origins);
            let (host, method, path) = (dice.pick(HOSTS), dice.pick(METHODS), dice.pick(PATHS));
            let mark =
                if path.contains('?') { format!("{path}&n={number}") } else { format!("{path}?n={number}") };
            let url = format!("{scheme}://{host}:{}{mark}", origin.port());
            let request = Request::url(method, &url);
            let request = if *host == "inside.test" { request.resolved_to(INSIDE) } else { request };
            if decide(&policy, &request).is_allowed() {
                expected.push(format!("{method} {mark} {host}:{}", origin.port()));
            }
            if *scheme == "https" && dice.roll(2) == 0 {
                let how = if *method == "HEAD" { "'-I'".to_owned() } else { format!("'-X', '{method}'") };
                script += &format!(
                    "subprocess.run(['curl', '-s', '-m', '40', '--http2', '--path-as-is', '-o', '/dev/null', {how}, '{url}'])\n"
                );
                continue;
            }
            let class = if *scheme == "https" { "HTTPSConnection" } else { "HTTPConnection" };
            let context = if *scheme == "https" { ", context=c" } else { "" };
            script += &format!(
                "try:\n    h = http.client.{class}('{host}', {}, timeout=40{context}); h.request('{method}', '{mark}'); h.getresponse().read()\nexcept OSError: pass\n",
                origin.port()
            );
        }
        let grants: String = specs.iter().map(|spec| yaml(spec)).collect::<Vec<_>>().join("\n");
        let ran = world.python(&grants, &script);
        let mut seen: Vec<String> = Vec::new();
        for (_, origin) in &origins {
            seen.extend(
                origin.take().into_iter().map(|seen| format!("{} {} {}", seen.method, seen.path, seen.host)),
            );
        }
        seen.sort();
        expected.sort();
        assert_eq!(seen, expected, "seed {seed} round {round} {specs:?} {ran:?}");
        assert_eq!(ran.status, 0, "{ran:?}");
    }
}

/// A compact grant as a line of a record.
fn yaml(spec: &str) -> String {
    let (verb, rest) = spec.split_once('{').unwrap();
    format!("{verb}: {{{}", rest.replace("hosts=", "hosts: "))
}
