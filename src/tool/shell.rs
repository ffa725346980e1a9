//! Shell lines: values become positional parameters, so that no byte of them is ever read as shell text.
//!
//! Invariant: the script of a [`ShellLine`] is the same for all values.

use super::problem::ToolCode;
use super::template::{Syntax, placeholders};
use super::{evaluate, lex};
use std::ops::Range;

/// A shell line that was found to be safe to fill in.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShellLine {
    /// As written.
    pub text: String,
    /// What `sh -c` is given: each placeholder is `"${1}"`, `"${2}"` and so on.
    pub script: String,
    /// The parameters whose values are `$1`, `$2` and so on.
    pub names: Vec<String>,
    /// Parameters that begin an argument, where a value with `-` would be an option.
    pub exposed: Vec<String>,
}

impl ShellLine {
    /// Reads a line.
    ///
    /// # Errors
    /// The kind, place and reason, when a value would be read as shell text or as code.
    pub fn parse(text: &str) -> Result<Self, (ToolCode, Range<usize>, String)> {
        let holes = placeholders(text, Syntax::Dollar);
        if text.contains('\0') {
            return Err((ToolCode::BadDefinition, 0..text.len(), "a line holds no NUL".to_owned()));
        }
        let mut line =
            Self { text: text.to_owned(), script: String::new(), names: Vec::new(), exposed: Vec::new() };
        if holes.is_empty() {
            line.script = text.to_owned();
            return Ok(line);
        }
        let pieces = lex::lex(text)?;
        line.exposed = evaluate::check(&pieces)?;
        let mut from = 0;
        for (range, name) in &holes {
            line.script.push_str(&text[from..range.start]);
            let number = line.names.iter().position(|known| known == name).unwrap_or_else(|| {
                line.names.push((*name).to_owned());
                line.names.len() - 1
            });
            line.script.push_str(&format!("\"${{{}}}\"", number + 1));
            from = range.end;
        }
        line.script.push_str(&text[from..]);
        Ok(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::template::Template;

    fn code(text: &str) -> Option<&'static str> {
        ShellLine::parse(text).err().map(|(code, _, _)| code.name())
    }

    #[test]
    fn values_become_parameters() {
        let line = ShellLine::parse("grep -e=${p} -- ${f} ${p} >${o}; ls | wc -l").unwrap();
        assert_eq!(line.script, "grep -e=\"${1}\" -- \"${2}\" \"${1}\" >\"${3}\"; ls | wc -l");
        assert_eq!((line.names.join(","), line.exposed.len()), ("p,f,o".to_owned(), 0));
        assert_eq!(ShellLine::parse("cat ${f}").unwrap().exposed, ["f"]);
        assert_eq!(ShellLine::parse("echo $HOME \"$(id)\"").unwrap().script, "echo $HOME \"$(id)\"");
    }

    #[test]
    fn a_placeholder_in_quotes_or_an_expansion_is_refused() {
        for line in [
            "echo \"${x}\"",
            "echo '${x}'",
            "echo a\"b ${x}\"",
            "echo `cat ${x}`",
            "echo $(cat ${x})",
            "echo \"$(cat ${x})\"",
            "echo ${y:-${x}}",
            "echo \\${x}",
            "echo $${x}",
            "echo $'${x}'",
            "echo $((${x}))",
            "cat <<E\n${x}\nE",
            "echo # ${x}",
            "cat <(echo ${x})",
            "echo ${x} \"unclosed",
            "echo ${x} 'unclosed",
            "echo ${x} $1",
            "echo ${x} \"$@\"",
            "echo ${x} $(( 1 ))",
            "echo ${x} ${HOME:-a}",
            "echo ${x} `echo $1`",
            "echo \"`echo ${x}`\"",
            "echo ${x} >&${y}",
            "echo \"a\\\"${x}\"",
            "a=\"$(echo \")${x}\")\"",
        ] {
            assert_eq!(code(line), Some("placeholder_inside_quotes"), "{line}");
        }
    }

    #[test]
    fn a_value_that_would_be_read_again_is_refused() {
        for line in [
            "eval ${x}",
            "eval echo ${x}",
            "sh -c ${x}",
            "bash -ec ${x}",
            "/bin/sh -c ${x}",
            "echo ${x} | sh",
            "echo ${x} | xargs sh -c",
            "echo ${x} | xargs rm",
            "xargs sh ${x}",
            "env sh -c ${x}",
            "nice -n 5 sh -c ${x}",
            "timeout 5 ${x}",
            "exec ${x}",
            "${x} a",
            "FOO=1 ${x}",
            "a=${x}; $a",
            "a=${x}; eval $a",
            "a=${x}; sh -c $a",
            "a=${x}; sh -c \"$a\"",
            "python3 -c ${x}",
            "perl -e ${x}",
            "awk ${x}",
            "sed -e s/a/b/ -e ${x}",
            "sed -n ${x}",
            "find . -exec ${x} \\;",
            "find . -name ${x} -exec rm {} \\;",
            ". ${x}",
            "source ${x}",
            "ssh h ${x}",
            "if true; then ${x}; fi",
            "! ${x}",
            "{ ${x}; }",
            "(${x})",
            "a && ${x}",
            "a\n${x}",
            "e\"v\"al ${x}",
            "\\eval ${x}",
            "LD_PRELOAD=${x} ls",
            "PATH=${x} ls",
            "a[${x}]=1",
            "f() { echo ${x}; }",
            "set -- a; echo ${x}",
            "sh <${x}",
            "sh <<<${x}",
            "sh -o pipefail -c ${x}",
            "python3.12 -c ${x}",
            "sudo -u a bash -c ${x}",
            "(echo ${x}) | sh",
            "echo ${x} | sudo sh",
            "declare ${x}",
            "printf -v ${x} a",
            "[[ ${x} -eq 1 ]]",
            "git -c ${x} log",
            "command eval ${x}",
            "trap ${x} EXIT",
            "echo ${x} | tee f | bash -s",
            "for i in ${x}; do $i; done",
            "busybox sh -c ${x}",
            "docker exec c sh -c ${x}",
            "kubectl exec p -- bash -c ${x}",
            "taskset 1 sh -c ${x}",
            "pkexec bash -c ${x}",
            "tmux new ${x}",
        ] {
            let code = code(line);
            assert!(
                matches!(code, Some("value_reevaluated" | "placeholder_inside_quotes")),
                "{line}: {code:?}"
            );
        }
    }

    #[test]
    fn a_list_that_reads_a_value_as_code_is_refused() {
        let refused = |words: &[&str]| {
            let args: Vec<Template> =
                words[1..].iter().map(|word| Template::parse(word, Syntax::Dollar)).collect();
            evaluate::check_argv(words[0], &args).is_err()
        };
        for words in [
            &["bash", "-c", "echo ${x}"][..],
            &["sh", "-c", "${x}"],
            &["/bin/sh", "-ec", "a ${x}"],
            &["env", "sh", "-c", "${x}"],
            &["python3", "-c", "print(${x})"],
            &["awk", "${x}", "f"],
            &["ssh", "h", "cat ${x}"],
            &["docker", "exec", "c", "sh", "-c", "${x}"],
            &["kubectl", "exec", "p", "--", "bash", "-c", "ls ${x}"],
            &["find", ".", "-exec", "${x}", ";"],
            &["git", "-c", "${x}", "log"],
            &["timeout", "5", "${x}"],
            &["xargs", "${x}"],
        ] {
            assert!(refused(words), "{words:?}");
        }
        for words in [
            &["sh", "build.sh", "${x}"][..],
            &["sh", "-c", "cat \"$1\"", "sh", "${x}"],
            &["git", "-C", "${repo}", "rev-parse", "HEAD"],
            &["python3", "tool.py", "--name=${x}"],
            &["docker", "run", "--rm", "${image}"],
            &["kubectl", "-n", "${ns}", "get", "pods"],
            &["grep", "-e", "${x}", "f"],
            &["bash", "-c", "echo hi"],
        ] {
            assert!(!refused(words), "{words:?}");
        }
    }

    #[test]
    fn honest_lines_pass() {
        for line in [
            "cat ${f}",
            "sed s/a/b/ ${f}",
            "sed -e s/a/b/ -- ${f}",
            "awk '{print $1}' ${f}",
            "python3 tool.py --name ${x}",
            "sh build.sh ${x}",
            "sh -c 'echo \"$0\"' ${x}",
            "cat ${f} | sort | uniq -c",
            "for i in ${x}; do echo \"$i\"; done",
            "timeout 5 cat ${f}",
            "env cat ${f}",
            "a=${x} true",
            "find . -name ${x}",
            "git log --grep=${x} -- ${p}",
            "echo a; cat ${f} >${o} 2>&1",
            "case ${x} in a) echo b;; esac",
            "[ ${x} = a ] && echo b",
            "if [ -e ${f} ]; then cat ${f}; fi",
            "cat ${f} | python3 filter.py",
            "echo $(date) ${x}",
            "echo \"$HOME\" ${x}",
            "printf '%s' ${x}",
            "docker exec c ls ${x}",
            "docker run --rm ${image} sh build.sh",
            "kubectl -n ${ns} get pods",
            "taskset 1 ls ${x}",
        ] {
            assert_eq!(ShellLine::parse(line).err(), None, "{line}");
        }
    }
}
