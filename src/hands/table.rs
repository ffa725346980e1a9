//! The operations, one row each: name, what it takes, what it is given, what it answers.

use super::offer::{Annotations, Needs, Row};
use super::{files, http, search};
use crate::capability::Capability;
use serde_json::{Value, json};

const READS: Annotations =
    Annotations { read_only: true, destructive: false, idempotent: true, open_world: false };
const WRITES: Annotations =
    Annotations { read_only: false, destructive: true, idempotent: true, open_world: false };
const CHANGES: Annotations =
    Annotations { read_only: false, destructive: true, idempotent: false, open_world: false };

/// A property.
fn of(kind: &str, about: &str) -> Value {
    json!({ "type": kind, "description": about })
}

fn path(about: &str) -> Value {
    json!({
        "path": of("string", about),
        "path_base64": of("string", "The same for a name that is not UTF-8, in base64."),
    })
}

/// A path and what else there is.
fn path_and(about: &str, more: Value) -> Value {
    merged(path(about), more)
}

/// The answer's path and what else there is.
fn told_path(more: Value) -> Value {
    let told = json!({
        "path": of("string", "The file, links followed."),
        "path_base64": of("string", "Its bytes in base64, when it is not UTF-8."),
    });
    merged(told, more)
}

fn merged(mut one: Value, other: Value) -> Value {
    if let (Some(one), Value::Object(other)) = (one.as_object_mut(), other) {
        one.extend(other);
    }
    one
}

fn read_input() -> Value {
    path_and(
        "The file, absolute or from the working directory.",
        json!({
            "offset": { "type": "integer", "minimum": 0, "description": "Read from this byte on." },
            "length": { "type": "integer", "minimum": 0, "description": "Read at most so many bytes." },
            "line": { "type": "integer", "minimum": 1, "description": "Read from this line on, counted from 1." },
            "lines": { "type": "integer", "minimum": 0, "description": "Read at most so many lines." },
            "encoding": { "enum": ["utf-8", "base64"], "description": "How content is told; by default as fits." },
        }),
    )
}

fn read_output() -> Value {
    told_path(json!({
        "content": of("string", "The content, or the part that was asked for."),
        "encoding": { "enum": ["utf-8", "base64"] },
        "size": of("integer", "Bytes of the whole file."),
        "whole": of("boolean", "Whether this is all of it."),
    }))
}

fn write_input() -> Value {
    path_and(
        "The file to write.",
        json!({
            "content": of("string", "All of the new content."),
            "encoding": { "enum": ["utf-8", "base64"], "description": "How `content` is written here; utf-8 by default." },
            "existing": {
                "enum": ["any", "new", "old"],
                "description": "`new`: nothing may stand there; `old`: a file must; `any` by default.",
            },
            "parents": of("boolean", "Make the directories above it that are missing."),
        }),
    )
}

fn write_output() -> Value {
    told_path(json!({
        "created": of("boolean", "Whether it is new."),
        "bytes": of("integer", "Its size now."),
        "atomic": of("boolean", "Whether nobody could see it half written; replacing a file so takes fs.delete too."),
    }))
}

fn edit_input() -> Value {
    let edit = json!({
        "old_text": of("string", "Text that stands in the file exactly once."),
        "new_text": of("string", "What takes its place."),
        "replace_all": of("boolean", "Replace every occurrence."),
    });
    let several = json!({
        "edits": {
            "type": "array", "minItems": 1, "maxItems": 100,
            "items": {
                "type": "object", "properties": edit, "required": ["old_text", "new_text"],
                "additionalProperties": false,
            },
            "description": "Several replacements, made in order, all or none.",
        },
    });
    path_and("The file to change.", merged(edit, several))
}

fn edit_output() -> Value {
    told_path(json!({
        "replacements": of("integer", "How many were made."),
        "bytes": of("integer", "Its size now."),
        "atomic": of("boolean", "Whether nobody could see it half written."),
    }))
}

fn delete_input() -> Value {
    let directory = of("boolean", "Delete an empty directory instead of a file.");
    path_and("The file; a link is deleted itself, not what it leads to.", json!({ "directory": directory }))
}

fn delete_output() -> Value {
    told_path(json!({ "kind": { "enum": ["file", "directory", "link", "other"] } }))
}

fn list_input() -> Value {
    let limit = json!({ "type": "integer", "minimum": 1, "maximum": 5000, "description": "The most entries; 1000 by default." });
    path_and("The directory; the working directory by default.", json!({ "limit": limit }))
}

fn list_output() -> Value {
    let entry = json!({
        "name": of("string", "Its name."),
        "name_base64": of("string", "Its bytes in base64, when it is not UTF-8."),
        "kind": { "enum": ["file", "directory", "link", "other", null] },
        "size": { "type": ["integer", "null"], "description": "Bytes of a file." },
        "modified": { "type": ["integer", "null"], "description": "Seconds since 1970." },
    });
    told_path(json!({
        "entries": { "type": "array", "items": { "type": "object", "properties": entry, "required": ["name", "kind"] } },
        "truncated": of("boolean", "Whether there are more."),
    }))
}

fn search_input() -> Value {
    path_and(
        "The directory to search; the working directory by default.",
        json!({
            "glob": of("string", "Paths below it: `*` stays in a part, `**` crosses them; without `/` a name anywhere."),
            "pattern": of("string", "A regular expression for lines; without it the names themselves are found."),
            "ignore_case": of("boolean", "Upper and lower case are the same in `pattern`."),
            "limit": { "type": "integer", "minimum": 1, "maximum": 2000, "description": "The most matches; 200 by default." },
        }),
    )
}

fn search_output() -> Value {
    let entry = json!({
        "path": of("string", "Below the directory that was searched."),
        "path_base64": of("string", "Its bytes in base64, when it is not UTF-8."),
        "kind": { "enum": ["file", "directory", "link", "other"] },
        "line": of("integer", "Counted from 1."),
        "column": of("integer", "In bytes, counted from 1."),
        "text": of("string", "The line, or the part of it around the match."),
    });
    told_path(json!({
        "matches": { "type": "array", "items": { "type": "object", "properties": entry, "required": ["path"] } },
        "truncated": of("boolean", "Whether there may be more."),
        "stopped_by": { "enum": ["results", "entries", "time", null] },
        "skipped": of("integer", "Files that are not text, too large or not to be read."),
    }))
}

fn http_input() -> Value {
    json!({
        "url": of("string", "An http or https URL."),
        "method": { "enum": ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"], "description": "GET by default." },
        "headers": { "type": "object", "additionalProperties": { "type": "string" }, "description": "Header lines to send." },
        "body": of("string", "The body to send."),
        "encoding": { "enum": ["utf-8", "base64"], "description": "How `body` is written here; utf-8 by default." },
        "redirects": { "type": "integer", "minimum": 0, "maximum": 10, "description": "The most redirects to follow; 5 by default. Each is asked for anew." },
        "max_bytes": { "type": "integer", "minimum": 0, "maximum": 8_388_608, "description": "The most of the answer's body; 1 MiB by default." },
        "timeout_ms": { "type": "integer", "minimum": 1, "maximum": 120_000, "description": "30 seconds by default." },
        "response_encoding": { "enum": ["utf-8", "base64"], "description": "How the answer's body is told; by default as fits." },
    })
}

fn http_output() -> Value {
    json!({
        "status": of("integer", "The status of the answer."),
        "url": of("string", "Where it came from in the end."),
        "redirected_from": { "type": "array", "items": { "type": "string" } },
        "headers": { "type": "object", "additionalProperties": { "type": "string" } },
        "body": of("string", "The body, as far as it was wanted."),
        "encoding": { "enum": ["utf-8", "base64"] },
        "truncated": of("boolean", "Whether there was more."),
    })
}

/// Every operation, in the order in which they are offered.
pub(super) const TABLE: &[Row] = &[
    Row {
        name: "read_file",
        title: "Read a file",
        description: "Reads a file, or some bytes or lines of it. Text comes as text, anything else in base64.",
        annotations: READS,
        capabilities: &[Capability::FsRead],
        needs: Needs::All,
        input: read_input,
        required: &[],
        output: read_output,
        told: &["path", "content", "encoding", "size", "whole"],
        doing: files::read,
    },
    Row {
        name: "write_file",
        title: "Write a file",
        description: "Writes a whole file, new or not. Permissions of a file that stands are kept.",
        annotations: WRITES,
        capabilities: &[Capability::FsWrite],
        needs: Needs::All,
        input: write_input,
        required: &["content"],
        output: write_output,
        told: &["path", "created", "bytes", "atomic"],
        doing: files::write,
    },
    Row {
        name: "edit_file",
        title: "Change a part of a file",
        description: "Replaces text that stands in a file exactly once, or every occurrence, by other text.",
        annotations: CHANGES,
        capabilities: &[Capability::FsRead, Capability::FsWrite],
        needs: Needs::All,
        input: edit_input,
        required: &[],
        output: edit_output,
        told: &["path", "replacements", "bytes", "atomic"],
        doing: files::edit,
    },
    Row {
        name: "delete_file",
        title: "Delete a file",
        description: "Deletes a file, a link or an empty directory.",
        annotations: CHANGES,
        capabilities: &[Capability::FsDelete],
        needs: Needs::All,
        input: delete_input,
        required: &[],
        output: delete_output,
        told: &["path", "kind"],
        doing: files::delete,
    },
    Row {
        name: "list_dir",
        title: "List a directory",
        description: "Lists the names in a directory with their kinds and sizes.",
        annotations: READS,
        capabilities: &[Capability::FsRead],
        needs: Needs::All,
        input: list_input,
        required: &[],
        output: list_output,
        told: &["path", "entries", "truncated"],
        doing: files::list,
    },
    Row {
        name: "search",
        title: "Search files",
        description: "Finds files by a glob, or lines by a regular expression, below a directory. Links are not followed.",
        annotations: READS,
        capabilities: &[Capability::FsRead],
        needs: Needs::All,
        input: search_input,
        required: &[],
        output: search_output,
        told: &["path", "matches", "truncated", "skipped"],
        doing: search::search,
    },
    Row {
        name: "http_request",
        title: "Make an HTTP request",
        description: "Makes a request through the agent's own network policy. Each redirect is decided on anew; secrets of the record are put in on the way.",
        annotations: Annotations { read_only: false, destructive: true, idempotent: false, open_world: true },
        capabilities: &[Capability::NetGet, Capability::NetPost, Capability::NetPut, Capability::NetDelete],
        needs: Needs::Any,
        input: http_input,
        required: &["url"],
        output: http_output,
        told: &["status", "url", "redirected_from", "headers", "body", "encoding", "truncated"],
        doing: http::request,
    },
];
