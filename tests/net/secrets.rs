//! Secrets that never enter a fence.

use crate::world::{World, awaited};

const GRANTS: &str = "net.get: {hosts: [\"*.test\"]}";
const VALUE: &str = "s3cr3t-v4lue-0123456789";

fn sent(world: &World) -> Vec<Option<String>> {
    world.https.take().into_iter().chain(world.http.take()).map(|seen| seen.authorization).collect()
}

#[test]
fn a_placeholder_gives_way_outside_for_one_host_over_tls() {
    for version in ["--http1.1", "--http2"] {
        let world = World::new().variable("API_TOKEN", VALUE);
        let section = "env:\n  API_TOKEN: {inject: {host: api.test, header: Authorization}}";
        let script = format!(
            "curl -s {version} -H \"Authorization: token $API_TOKEN\" https://api.test:{{https}}/1; \
curl -s {version} https://api.test:{{https}}/2; curl -s {version} -u x:$API_TOKEN https://api.test:{{https}}/3; \
curl -s {version} -H \"Authorization: token $API_TOKEN\" https://other.test:{{https}}/4; \
curl -s -H \"Authorization: token $API_TOKEN\" http://api.test:{{http}}/5; echo $API_TOKEN; env; cat /proc/*/environ"
        );
        let ran = world.run_with(GRANTS, section, &script, &[]);
        assert!(!ran.stdout.contains(VALUE) && !ran.stderr.contains(VALUE), "{ran:?}");
        let placeholder =
            ran.stdout.lines().find(|line| line.starts_with("sbx-api-token-")).unwrap().to_owned();
        let sent = sent(&world);
        assert_eq!(sent[0].as_deref(), Some(format!("token {VALUE}").as_str()), "{version} {sent:?}");
        assert_eq!(sent[1].as_deref(), Some(format!("Bearer {VALUE}").as_str()));
        let basic = sent[2].clone().unwrap();
        let decoded =
            std::process::Command::new("base64").arg("-d").stdin(pipe(&basic[6..])).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&decoded.stdout), format!("x:{VALUE}"));
        assert_eq!(sent[3].as_deref(), Some(format!("token {placeholder}").as_str()));
        assert_eq!(sent[4].as_deref(), Some(format!("token {placeholder}").as_str()));
        let log = std::fs::read_to_string(world.path("home/.local/state/sbx/audit.jsonl")).unwrap();
        assert!(!log.contains(VALUE));
    }
}

#[test]
fn whoever_holds_a_secret_leaves_no_image_of_its_memory() {
    let world = World::new().variable("API_TOKEN", VALUE);
    let section = "env:\n  API_TOKEN: {inject: {host: api.test, header: Authorization}}";
    let script = "touch started; until [ -e seen ]; do sleep 0.05; done";
    let running = world.start(GRANTS, section, script, &[]);
    awaited("the command starts", || world.path("ws/started").exists());
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", running.id())).unwrap();
    world.write("ws/seen", "");
    running.finish();
    let line = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(line.split_whitespace().nth(4), Some("1"), "{line}");
}

fn pipe(text: &str) -> std::process::Stdio {
    let mut echo = std::process::Command::new("printf")
        .arg("%s")
        .arg(text)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let out = echo.stdout.take().unwrap();
    let _ = echo.wait();
    out.into()
}

#[test]
fn a_host_with_a_secret_is_inspected_although_all_verbs_are_held() {
    let world = World::new().variable("KEY", VALUE);
    let grants = ["get", "post", "put", "delete"]
        .map(|verb| format!("net.{verb}: {{hosts: [\"*.test\"]}}"))
        .join("\n");
    let section = "env:\n  KEY: {inject: {host: api.test, header: X-Key, format: \"key {}\"}}";
    let ran = world.run_with(
        &grants,
        section,
        "curl -s https://api.test:{https}/1; curl -s {ca} https://other.test:{https}/2",
        &[],
    );
    assert_eq!(ran.status, 0, "{ran:?}");
    assert_eq!(sent(&world), [Some(format!("key {VALUE}")), None]);
}

#[test]
fn values_come_from_files_and_commands_too() {
    let world = World::new();
    let file = world.write("token", format!("{VALUE}\n"));
    for from in [format!("{{file: {}}}", file.display()), format!("{{command: [printf, {VALUE}]}}")] {
        let section =
            format!("env:\n  T: {{inject: {{host: api.test, header: Authorization}}, from: {from}}}");
        let ran = world.run_with(
            GRANTS,
            &section,
            "curl -s -H \"Authorization: $T\" https://api.test:{https}/1",
            &[],
        );
        assert_eq!(sent(&world), [Some(VALUE.to_owned())], "{ran:?}");
    }
    for from in ["{file: /no/such}", "{command: [\"false\"]}"] {
        let section =
            format!("env:\n  T: {{inject: {{host: api.test, header: Authorization}}, from: {from}}}");
        let ran = world.run_with(GRANTS, &section, "echo ran", &[]);
        assert_eq!((ran.status, ran.stdout.as_str()), (125, ""), "{ran:?}");
        assert!(ran.stderr.contains("cannot read the secret for T"), "{ran:?}");
    }
}

#[test]
fn a_command_that_gives_a_value_takes_nothing_from_where_the_agent_writes() {
    let astray = "print('from-the-workspace', end='')";
    let section = |command: &str| {
        format!("env:\n  T: {{inject: {{host: api.test, header: X-T}}, from: {{command: {command}}}}}")
    };
    let script = "curl -s -H \"Authorization: $T\" https://api.test:{https}/1; echo ran";
    let world = World::new();
    let at = world.path("ws").display().to_string();
    let world = world
        .variable("PYTHONPATH", &format!("{at}/lib"))
        .variable("PYTHONSTARTUP", "/usr/share/none.py")
        .variable("NODE_OPTIONS", &format!("--no-warnings --require={at}/lib/first.js"));
    for file in ["ws/keeper.py", "ws/lib/keeper.py"] {
        world.write(file, astray);
    }
    let ran = world.run_with(GRANTS, &section("[python3, -m, keeper]"), script, &[]);
    assert_eq!((ran.status, ran.stdout.as_str()), (125, ""), "{ran:?}");
    assert!(ran.stderr.contains("No module named keeper"), "{ran:?}");
    let told = "import os; print(os.getcwd(), *(sorted(set(os.environ) & {'PYTHONPATH', 'PYTHONSTARTUP', 'NODE_OPTIONS', 'HOME', 'PWD'})), sep='-', end='')";
    let section = section(&format!("[python3, -c, \"{told}\"]")).replace("X-T", "Authorization");
    let ran = world.run_with(GRANTS, &section, script, &[]);
    assert_eq!(sent(&world), [Some("/-HOME-PYTHONSTARTUP".to_owned())], "{ran:?}");
}

#[test]
fn a_rule_that_is_wrong_refuses_the_record() {
    let world = World::new();
    for rule in [
        "{inject: {host: \"*.test\", header: X}}",
        "{inject: {host: api.test, header: \"a b\"}}",
        "{inject: {host: api.test, header: Host}}",
        "{inject: {host: api.test}}",
        "{inject: {host: api.test, header: X, format: none}}",
        "{inject: {host: api.test, header: X}, from: {file: relative}}",
        "{inject: {host: api.test, header: X}, from: {env: A, file: /b}}",
        "{inject: {host: api.test, header: X, more: 1}}",
    ] {
        let ran = world.run_with(GRANTS, &format!("env:\n  T: {rule}"), "echo ran", &[]);
        assert_eq!((ran.status, ran.stdout.as_str()), (125, ""), "{rule} {ran:?}");
        assert!(ran.stderr.contains("the record has errors"), "{rule} {ran:?}");
    }
}
