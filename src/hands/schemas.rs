//! What each operation is given and what it answers, as properties of JSON Schemas.

use serde_json::{Value, json};

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

pub(super) fn read_input() -> Value {
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

pub(super) fn read_output() -> Value {
    told_path(json!({
        "content": of("string", "The content, or the part that was asked for."),
        "encoding": { "enum": ["utf-8", "base64"] },
        "size": of("integer", "Bytes of the whole file."),
        "whole": of("boolean", "Whether this is all of it."),
    }))
}

pub(super) fn write_input() -> Value {
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

pub(super) fn write_output() -> Value {
    told_path(json!({
        "created": of("boolean", "Whether it is new."),
        "bytes": of("integer", "Its size now."),
        "atomic": of("boolean", "Whether nobody could see it half written; replacing a file so takes fs.delete too."),
    }))
}

pub(super) fn edit_input() -> Value {
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

pub(super) fn edit_output() -> Value {
    told_path(json!({
        "replacements": of("integer", "How many were made."),
        "bytes": of("integer", "Its size now."),
        "atomic": of("boolean", "Whether nobody could see it half written."),
    }))
}

pub(super) fn delete_input() -> Value {
    let directory = of("boolean", "Delete an empty directory instead of a file.");
    path_and("The file; a link is deleted itself, not what it leads to.", json!({ "directory": directory }))
}

pub(super) fn delete_output() -> Value {
    told_path(json!({ "kind": { "enum": ["file", "directory", "link", "other"] } }))
}

pub(super) fn list_input() -> Value {
    let limit = json!({ "type": "integer", "minimum": 1, "maximum": 5000, "description": "The most entries; 1000 by default." });
    path_and("The directory; the working directory by default.", json!({ "limit": limit }))
}

pub(super) fn list_output() -> Value {
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

pub(super) fn search_input() -> Value {
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

pub(super) fn search_output() -> Value {
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

pub(super) fn http_input() -> Value {
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

pub(super) fn http_output() -> Value {
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

fn record(more: Value) -> Value {
    let told = json!({
        "id": of("string", "The record."),
        "class": { "type": ["string", "null"], "description": "Its class." },
    });
    merged(told, more)
}

pub(super) fn records_read_input() -> Value {
    json!({ "id": of("string", "The record, such as `notes/today`.") })
}

pub(super) fn records_read_output() -> Value {
    record(json!({
        "fields": of("object", "Its front matter."),
        "body": of("string", "Its text."),
        "revision": of("string", "What it is now; give it back to change just this."),
    }))
}

pub(super) fn records_list_input() -> Value {
    json!({
        "class": of("string", "Only records of this class."),
        "below": of("string", "Only records whose ids begin so."),
        "limit": { "type": "integer", "minimum": 1, "maximum": 500, "description": "The most records; 100 by default." },
    })
}

pub(super) fn records_list_output() -> Value {
    let entry = json!({ "type": "object", "properties": record(json!({})), "required": ["id", "class"] });
    json!({ "records": { "type": "array", "items": entry }, "truncated": of("boolean", "Whether there are more.") })
}

pub(super) fn records_search_input() -> Value {
    json!({
        "pattern": of("string", "A regular expression for lines."),
        "ignore_case": of("boolean", "Upper and lower case are the same."),
        "class": of("string", "Only records of this class."),
        "limit": { "type": "integer", "minimum": 1, "maximum": 500, "description": "The most matches; 100 by default." },
    })
}

pub(super) fn records_search_output() -> Value {
    let found =
        record(json!({ "line": of("integer", "Counted from 1."), "text": of("string", "The line.") }));
    let entry = json!({ "type": "object", "properties": found, "required": ["id", "class", "line", "text"] });
    json!({ "matches": { "type": "array", "items": entry }, "truncated": of("boolean", "Whether there are more.") })
}

fn fields() -> Value {
    json!({ "type": "object", "description": "Keys of the front matter to set." })
}

pub(super) fn records_create_input() -> Value {
    json!({
        "id": of("string", "The new record, such as `notes/today`."),
        "class": of("string", "Its class."),
        "fields": fields(),
        "body": of("string", "Its text, in Markdown."),
    })
}

pub(super) fn records_update_input() -> Value {
    json!({
        "id": of("string", "The record."),
        "class": of("string", "Its class from now on."),
        "fields": fields(),
        "body": of("string", "Its new text."),
        "content": of("string", "The whole record anew, front matter included."),
        "revision": of("string", "Change it only if it is still this."),
    })
}

pub(super) fn records_written_output() -> Value {
    record(json!({ "revision": of("string", "What it is now.") }))
}

pub(super) fn records_delete_output() -> Value {
    record(json!({}))
}

pub(super) fn agents_capabilities_input() -> Value {
    json!({})
}

pub(super) fn agents_capabilities_output() -> Value {
    let grant = json!({
        "capability": of("string", "The verb."),
        "grant": of("string", "In compact form."),
        "risk": { "enum": ["low", "medium", "high"] },
        "root": { "type": ["string", "null"] },
        "inert": of("boolean", "Whether it allows nothing, for want of a root."),
    });
    json!({
        "agent": of("string", "Whose."),
        "grants": { "type": "array", "items": { "type": "object", "properties": grant, "required": ["capability", "grant", "risk"] } },
    })
}

pub(super) fn agents_grant_input() -> Value {
    json!({
        "id": of("string", "The other agent."),
        "grants": {
            "type": "array", "items": { "type": "string" }, "minItems": 1, "maxItems": 50,
            "description": "Grants in compact form, such as `fs.read{in=/work,paths=[docs]}`; each must be covered by your own.",
        },
    })
}

pub(super) fn agents_grant_output() -> Value {
    json!({
        "id": of("string", "The other agent."),
        "granted": { "type": "array", "items": { "type": "string" } },
        "changed": of("boolean", "Whether anything was new."),
    })
}
