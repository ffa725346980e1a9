//! Help, completions, man pages: all from one definition, and all complete.

use crate::support::TestEnv;
use expect_test::expect;

/// Every command of the definition, as the words that call it.
fn commands() -> Vec<Vec<String>> {
    fn walk(command: &clap::Command, words: &[String], all: &mut Vec<Vec<String>>) {
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help" && !sub.is_hide_set()) {
            let words: Vec<String> = words.iter().cloned().chain([sub.get_name().to_owned()]).collect();
            walk(sub, &words, all);
            all.push(words);
        }
    }
    let mut all = Vec::new();
    walk(&sbx::cli::definition(), &[], &mut all);
    all
}

#[test]
fn every_command_has_help_that_its_parent_mentions() {
    let env = TestEnv::new();
    for words in commands() {
        let (name, parent) = words.split_last().expect("a name");
        let help = |words: &[String]| {
            env.sbx(&words.iter().map(String::as_str).chain(["--help"]).collect::<Vec<_>>())
        };
        let own = help(&words);
        assert!(
            own.contains(&format!("Usage: sbx {}", words.join(" "))) && own.ends_with("[exit 0]\n"),
            "{own}"
        );
        assert!(help(parent).contains(&format!("  {name} ")), "{words:?}");
    }
}

#[test]
fn every_option_is_explained() {
    fn check(command: &clap::Command) {
        for argument in command.get_arguments() {
            assert!(
                argument.get_help().is_some(),
                "{} of {} has no help",
                argument.get_id(),
                command.get_name()
            );
        }
        command.get_subcommands().for_each(check);
    }
    check(&sbx::cli::definition());
}

#[test]
fn the_short_help_is_one_screen() {
    let env = TestEnv::new();
    expect![[r#"
        Gives an AI agent exactly the authority written in its record

        Usage: sbx [OPTIONS] <COMMAND>

        Commands:
          exec            Run a command behind an agent's fence
          eval            Run shell text behind an agent's fence
          shell           Open a shell behind an agent's fence
          agents          List, read, write and trust agents' records
          check           Ask whether an agent may do something
          explain         Show the narrowing chain and what is left, as a receipt
          risk            Say what could go wrong with a shell text
          why             Ask whether an agent may do something, and try it in its sandbox
          fs              Do an agent's file operations behind its fence
          http            Make an HTTP request with an agent's authority
          records         Read and change the store of records with an agent's authority
          doctor          Find out what works here, what does not, and what to do about it
          audit           Show, count and verify what happened
          learn           Watch a command in a rehearsal, and propose the smallest record for it
          report          Show what agents may do, what they did and what changed, as a page or as text
          skills          List skills, or say what one still needs
          tools           Name commands with checked values, and run them or leave them running
          provider-tools  Show what an agent may be given on the model provider's side
          mcp             Stand between clients and servers of the Model Context Protocol
          hook            Answer clients that ask before a tool runs
          schema          Print JSON Schemas of what sbx reads and writes
          completions     Print shell completions
          man             Print the manual

        Options:
              --json           Print answers as JSON
              --color <COLOR>  When to colour [default: auto] [possible values: auto, always, never]
          -h, --help           Print help (see more with '--help')
          -V, --version        Print version
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["-h"]));
}

#[test]
fn the_version_is_the_packages() {
    let env = TestEnv::new();
    assert_eq!(env.sbx(&["--version"]), format!("sbx {}\n[exit 0]\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn completions_are_accepted_by_their_shell_and_know_every_command() {
    let env = TestEnv::new();
    for shell in ["bash", "zsh", "fish"] {
        let text = env.sbx(&["completions", shell]);
        for words in commands() {
            let name = words.last().expect("a name");
            assert!(text.contains(name.as_str()), "{shell} does not complete {name}");
        }
    }
    expect![[r#"
        [exit 0]
    "#]]
    .assert_eq(&env.sh("sbx completions bash > out.bash && bash -n out.bash"));
    expect![[r#"
        [stderr]
        error: invalid value 'tcsh' for '<SHELL>'
          [possible values: bash, elvish, fish, powershell, zsh]

          tip: a similar value exists: 'zsh'

        For more information, try '--help'.
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["completions", "tcsh"]));
}

#[test]
fn there_is_a_man_page_for_every_command() {
    let env = TestEnv::new();
    assert!(env.sbx(&["man"]).starts_with(".ie \\n(.g .ds Aq"));
    for words in commands() {
        let args: Vec<&str> = ["man"].into_iter().chain(words.iter().map(String::as_str)).collect();
        let page = env.sbx(&args);
        assert!(page.contains(".SH SYNOPSIS") && page.ends_with("[exit 0]\n"), "{words:?}: {page}");
    }
    expect![[r#"
        [stderr]
        error: there is no command `frob`
          hint: `sbx --help` lists them
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["man", "agents", "frob"]));
}

#[test]
fn all_man_pages_are_written_into_a_directory() {
    let env = TestEnv::new();
    expect![[r#"
        wrote the pages to pages
        [exit 0]
    "#]]
    .assert_eq(&env.sbx(&["man", "--dir", "pages"]));
    let files = env.files();
    for words in commands() {
        let page = format!("[PROJECT]/pages/sbx-{}.1", words.join("-"));
        assert!(files.contains(&page), "{page} is missing in {files:?}");
    }
    env.write("project/file", "");
    expect![[r#"
        [stderr]
        error: cannot write the pages to file
          caused by: File exists (os error 17)
        [exit 2]
    "#]]
    .assert_eq(&env.sbx(&["man", "--dir", "file"]));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let env = TestEnv::new();
    for line in [
        "agents list",
        "schema record",
        "completions zsh",
        "man",
        "--help",
        "agents show scout",
        "explain -a scout",
    ] {
        let line = format!("{{ sbx {line}; echo \"status $?\" >&2; }} | head -c 1 > /dev/null; sleep 0.05");
        let shown = env.sh(&line);
        assert_eq!(shown, "[stderr]\nstatus 0\n[exit 0]\n", "{line}");
    }
    let many = "i=0; while [ $i -lt 9000 ]; do echo '{\"cap\": \"net.get\", \"host\": \"a.example\"}'; i=$((i+1)); done \
        | { sbx check -a fetcher --batch; echo \"status $?\" >&2; } | head -1 > /dev/null";
    assert_eq!(env.sh(many), "[stderr]\nstatus 0\n[exit 0]\n");
}

#[test]
fn a_full_device_is_an_error() {
    let env = TestEnv::new();
    expect![[r#"
        [stderr]
        error: cannot write to stdout
          caused by: No space left on device (os error 28)
        [exit 2]
    "#]]
    .assert_eq(&env.sh("sbx agents list > /dev/full"));
    expect![[r#"
        [stderr]
        error: cannot write to stdout
          caused by: No space left on device (os error 28)
        [exit 2]
    "#]]
    .assert_eq(&env.sh("sbx --help > /dev/full"));
}

#[test]
fn closed_descriptors_do_no_harm() {
    let env = TestEnv::new();
    // What is closed is opened on /dev/null before anything else could take its number.
    assert_eq!(env.sh("sbx agents list >&- 2>&-"), "[exit 0]\n");
    assert_eq!(env.sh("sbx agents grant nobody records.read <&- >&- 2>&-"), "[exit 2]\n");
}
