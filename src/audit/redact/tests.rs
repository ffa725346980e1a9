//! What is taken out, and what is left.

use super::*;
use serde_json::json;

const SECRET: &str = "hunter2-Zx9";

fn argv(arguments: &[&str]) -> Vec<String> {
    let event = redact(Event::new("launch", "a", json!({ "argv": arguments })));
    event.body["argv"].as_array().unwrap().iter().map(|item| item.as_str().unwrap().to_owned()).collect()
}

fn text(text: &str) -> String {
    redact(Event::new("launch", "a", json!({ "cmd": text }))).body["cmd"].as_str().unwrap().to_owned()
}

/// Every way in which a rule names a place, as arguments and as shell text.
fn places() -> Vec<Vec<String>> {
    let mut places: Vec<Vec<String>> = Vec::new();
    let mut add = |words: &[&str]| places.push(words.iter().map(|word| word.replace('@', SECRET)).collect());
    for word in SECRETS.words() {
        let (upper, camel) = (word.to_uppercase().replace('-', "_"), word.replace('-', ""));
        add(&["tool", &format!("--{word}"), "@", "rest"]);
        add(&["tool", &format!("--{word}=@"), "rest"]);
        add(&["env", &format!("{upper}=@"), "tool"]);
        add(&["env", &format!("MY_{upper}=@;&,x"), "tool"]);
        add(&["tool", &format!("-D{upper}=@")]);
        add(&["tool", "-H", &format!("X-{word}: @ more @")]);
        add(&["tool", "-d", &format!("{{\"{word}\": \"@\", \"b\": 1}}")]);
        add(&["tool", "-d", &format!("{{\"{word}\":\"@\"}}")]);
        add(&["tool", "-d", &format!("{{\"{word}\": [\"x\", \"@\"]}}")]);
        add(&["tool", "-d", &format!("{{\"{word}\":{{\"value\":\"@\"}}}}")]);
        add(&["tool", "-d", &format!("{word}: [x, @]")]);
        add(&["tool", &format!("{upper}=[x, @]")]);
        add(&["tool", &format!("https://host.example/?a=b&{camel}=@&c=d")]);
        add(&["git", "config", "set", &format!("a.{word}"), "@"]);
        add(&["sh", "-c", &format!("export {upper}='@ @'; tool")]);
    }
    for scheme in SECRETS.schemes() {
        add(&["tool", "-H", &format!("Authorization: {scheme} @")]);
        add(&["sh", "-c", &format!("tool -H \"Authorization: {scheme} @\" x")]);
    }
    for prefix in SECRETS.prefixes() {
        add(&["tool", &format!("{prefix}@0123")]);
        add(&["tool", &format!("x={prefix}@0123")]);
        add(&["echo", &format!("two words {prefix}@0123 more")]);
    }
    for option in SECRETS.options() {
        let program: Vec<&str> = [option.program].into_iter().chain(option.subcommand).collect();
        add(&[&program, &["-v", option.option, "@", "x"][..]].concat());
        add(&[&["sudo", "-E"][..], &program, &[option.option, "@"]].concat());
        if option.option.len() == 2 {
            add(&[&program, &[&*format!("{}@", option.option)][..]].concat());
        }
    }
    places
}

#[test]
fn a_secret_in_any_place_a_rule_names_is_taken_out() {
    let mut places = places();
    for address in
        ["https://n:S!@host.example/x", "https://S!@host.example", "n:S!@host.example", "ssh://n:S!@h:22/"]
    {
        places.push(vec!["tool".to_owned(), address.replace("S!", SECRET)]);
    }
    assert!(places.len() > 400);
    for place in places {
        let words: Vec<&str> = place.iter().map(String::as_str).collect();
        assert!(words.iter().any(|word| word.contains(SECRET)), "{words:?} holds no secret");
        let kept = argv(&words);
        assert!(!kept.concat().contains(SECRET), "{words:?} became {kept:?}");
        let shell = words
            .iter()
            .map(|word| {
                if word.contains([' ', '"', ';', '&']) {
                    format!("'{}'", word.replace('\'', "\""))
                } else {
                    (*word).to_owned()
                }
            })
            .collect::<Vec<_>>()
            .join(" ");
        let kept = text(&shell);
        assert!(!kept.contains(SECRET), "{shell} became {kept}");
        let denied = json!({ "denial": { "message": format!("a may not proc.exec {shell}"), "request": { "argv": words } } });
        let kept = serde_json::to_string(&redact(Event::new("decision", "a", denied)).body).unwrap();
        assert!(!kept.contains(SECRET), "{shell} became {kept}");
    }
}

#[test]
fn what_is_no_secret_is_left() {
    for plain in [
        &["git", "log", "--oneline", "-n", "5"][..],
        &["cargo", "test", "--features", "a,b", "--", "--nocapture"],
        &["docker", "run", "-p", "80:80", "image"],
        &["ssh", "-p", "2222", "host.example"],
        &["curl", "-fsSL", "https://host.example/@scope/package?page=2"],
        &["tool", "--token-file", "/run/x", "--max-tokens", "100"],
        &["rg", "token", "src/author.rs"],
        &["mkdir", "-p", "a/b"],
        &["git", "clone", "git@host.example:owner/name.git"],
        &["python3", "-c", "print('a: b', 1)"],
    ] {
        assert_eq!(argv(plain), plain);
    }
    for plain in
        ["ls -l | wc -l", "echo 'two  words' \"and more\"", "for x in a b; do echo $x; done", "a=b; c: d"]
    {
        assert_eq!(text(plain), plain);
    }
}

#[test]
fn keys_of_an_event_are_names_too() {
    let body =
        json!({ "headers": { "authorization": "x y z", "accept": "text/html" }, "token": SECRET, "n": 1 });
    let body = redact(Event::new("request", "a", body)).body;
    let kept =
        json!({ "headers": { "authorization": REDACTED, "accept": "text/html" }, "token": REDACTED, "n": 1 });
    assert_eq!(Value::Object(body), kept);
}

#[test]
fn whatever_stands_under_the_name_of_a_secret_is_taken_out() {
    for value in
        [json!(482_913), json!(1.5), json!([SECRET]), json!([1, [SECRET]]), json!({ "value": SECRET })]
    {
        let body = redact(Event::new("tool", "a", json!({ "arguments": { "otp": value, "n": 7 } }))).body;
        assert_eq!(body["arguments"], json!({ "otp": REDACTED, "n": 7 }), "{value}");
    }
    let plain = json!({ "token": null, "auth": false, "password": [], "cookie": {}, "max_tokens": 100, "token_count": 3 });
    assert_eq!(Value::Object(redact(Event::new("tool", "a", plain.clone())).body), plain);
}
