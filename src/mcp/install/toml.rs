//! A client's TOML, edited in place.

use super::entry::Edit;

use serde_json::{Map, Value, json};
use toml_edit::{Array, DocumentMut, Item, RawString, Table, TableLike};

/// Reads a file of settings.
pub(super) fn parse(text: &str) -> Result<DocumentMut, String> {
    let document = text.parse::<DocumentMut>().map_err(|error| error.to_string().trim_end().to_owned())?;
    // What is not meant to change stays as it is.
    if document.to_string() == text {
        Ok(document)
    } else {
        Err("its lines end in two ways; make them one".to_owned())
    }
}

/// Every server of the list, as far as it is words and tables of words.
pub(super) fn servers(document: &DocumentMut, key: &str) -> Result<Map<String, Value>, String> {
    let Some(list) = document.get(key) else { return Ok(Map::new()) };
    let list = list.as_table_like().ok_or_else(|| format!("`{key}` is not a table"))?;
    let mut servers = Map::new();
    for (name, server) in list.iter() {
        let Some(table) = server.as_table_like() else { continue };
        let words = |item: &Item| -> Value {
            let items = item.as_array().into_iter().flatten();
            items.map(|word| json!(word.as_str())).collect()
        };
        let mut entry = Map::new();
        for (key, item) in table.iter() {
            let read = match item.as_str() {
                Some(text) => json!(text),
                None if item.is_array() => words(item),
                None => json!(item.to_string().trim()),
            };
            entry.insert(key.to_owned(), read);
        }
        servers.insert(name.to_owned(), Value::Object(entry));
    }
    Ok(servers)
}

/// Changes keys of one server, which is made if there is none; what else it has stays.
pub(super) fn edit<K: AsRef<str>>(
    document: &mut DocumentMut,
    key: &str,
    name: &str,
    edits: impl IntoIterator<Item = (K, Edit)>,
) -> Result<(), String> {
    let list = document.entry(key).or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    let list = list.as_table_like_mut().ok_or_else(|| format!("`{key}` is not a table"))?;
    if list.get(name).is_none() {
        list.insert(name, Item::Table(Table::new()));
    }
    let server = list.get_mut(name).and_then(Item::as_table_like_mut);
    let server = server.ok_or_else(|| format!("`{key}.{name}` is not a table"))?;
    for (key, edit) in edits {
        let key = key.as_ref();
        match edit {
            Edit::Unset => drop(server.remove(key)),
            Edit::Set(Value::String(text)) => put(server, key, text.into()),
            Edit::Set(wanted) => {
                let words = wanted.as_array().into_iter().flatten();
                put(server, key, words.filter_map(Value::as_str).collect::<Array>().into());
            }
            Edit::Lead(cut, words) => {
                let list = server.get_mut(key).and_then(Item::as_array_mut);
                lead(list.ok_or_else(|| format!("`{key}.{name}.{key}` is not a list"))?, cut, &words);
            }
        }
    }
    Ok(())
}

/// Sets a key; the comment behind a value belongs to its line.
fn put(server: &mut dyn TableLike, key: &str, mut new: toml_edit::Value) {
    match server.get_mut(key).and_then(Item::as_value_mut) {
        Some(old) => {
            *new.decor_mut() = old.decor().clone();
            *old = new;
        }
        None => drop(server.insert(key, Item::Value(new))),
    }
}

/// Makes the first words of a list others; the rest stays, with the comments in it.
fn lead(list: &mut Array, cut: usize, put: &[String]) {
    let ahead = |list: &Array| {
        let prefix = list.get(0).and_then(|first| first.decor().prefix()).and_then(RawString::as_str);
        prefix.unwrap_or_default().to_owned()
    };
    let was = ahead(list);
    for _ in 0..cut.min(list.len()) {
        list.remove(0);
    }
    // A word a line where the first has one of its own, and no comment twice.
    let own_line = was.rfind('\n').map(|at| was[at..].to_owned());
    let apart = own_line.clone().unwrap_or_else(|| " ".to_owned());
    if !ahead(list).contains('\n') {
        let next = if put.is_empty() { was.clone() } else { " ".to_owned() };
        if let Some(first) = list.get_mut(0) {
            first.decor_mut().set_prefix(next);
        }
    }
    for (at, word) in put.iter().enumerate() {
        let mut word = toml_edit::Value::from(word.as_str());
        let first = own_line.clone().unwrap_or_else(|| was.clone());
        word.decor_mut().set_prefix(if at == 0 { first } else { apart.clone() });
        list.insert_formatted(at, word);
    }
}
