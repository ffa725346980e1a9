//! The files that a patch names, in the form that some clients have for patches.

use crate::capability::Capability;

/// Every file a patch would touch, and how; none when it is not such a patch.
#[must_use]
pub fn named(patch: &str) -> Option<Vec<(Capability, &str)>> {
    let mut files = Vec::new();
    let mut begun = false;
    for line in patch.lines() {
        let line = line.trim_end();
        // Content starts with a sign; whatever starts otherwise could be a heading, however it is indented.
        let Some(heading) = line.trim_start().strip_prefix("*** ") else { continue };
        let (word, file) = heading.split_once(": ").unwrap_or((heading, ""));
        let verbs: &[Capability] = match word.trim() {
            "Begin Patch" => {
                begun = true;
                continue;
            }
            "End Patch" | "End of File" => continue,
            "Environment ID" => return None,
            "Add File" | "Move to" => &[Capability::FsWrite],
            "Update File" => &[Capability::FsRead, Capability::FsWrite],
            "Delete File" => &[Capability::FsDelete],
            _ => return None,
        };
        let file = file.trim();
        if file.is_empty() {
            return None;
        }
        if word.trim() == "Move to" {
            // What is moved away is gone from where it was.
            let (_, from) = *files.last()?;
            files.push((Capability::FsDelete, from));
        }
        files.extend(verbs.iter().map(|verb| (*verb, file)));
    }
    (begun && !files.is_empty()).then_some(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Capability::{FsDelete, FsRead, FsWrite};

    #[test]
    fn every_file_of_a_patch_is_named() {
        let patch = "*** Begin Patch\n*** Add File: a b.txt\n+x\n*** Update File: src/x.rs\n*** Move to: src/y.rs\n@@\n-a\n+*** Delete File: no\n *** Delete File: /etc/x\n*** End Patch\n";
        assert_eq!(
            named(patch).unwrap(),
            [
                (FsWrite, "a b.txt"),
                (FsRead, "src/x.rs"),
                (FsWrite, "src/x.rs"),
                (FsDelete, "src/x.rs"),
                (FsWrite, "src/y.rs"),
                (FsDelete, "/etc/x"),
            ]
        );
        for other in [
            "",
            "x",
            "*** Begin Patch\n*** End Patch",
            "*** Begin Patch\n*** Rename File: x",
            "*** Add File: x",
        ] {
            assert_eq!(named(other), None, "{other:?}");
        }
    }
}
