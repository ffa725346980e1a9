//! A client's TOML, edited in place.

use serde_json::{Map, Value, json};
use toml_edit::{Array, DocumentMut, Item, Table, value};

/// Reads a file of settings.
pub(super) fn parse(text: &str) -> Result<DocumentMut, String> {
    text.parse::<DocumentMut>().map_err(|error| error.to_string().trim_end().to_owned())
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

/// Sets keys of one server; what else it has stays.
pub(super) fn set(
    document: &mut DocumentMut,
    key: &str,
    name: &str,
    entry: &Map<String, Value>,
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
    for (key, wanted) in entry {
        if wanted.is_null() {
            server.remove(key);
            continue;
        }
        let new = match wanted {
            Value::String(text) => value(text.as_str()),
            Value::Array(words) => value(words.iter().filter_map(Value::as_str).collect::<Array>()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => continue,
        };
        match server.get_mut(key).and_then(Item::as_value_mut) {
            // The comment behind a value belongs to its line.
            Some(old) => {
                let decor = old.decor().clone();
                if let Item::Value(new) = new {
                    *old = new;
                    *old.decor_mut() = decor;
                }
            }
            None => {
                server.insert(key, new);
            }
        }
    }
    Ok(())
}
