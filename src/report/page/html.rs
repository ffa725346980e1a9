//! Writes HTML in which only this program's own words can be markup.

use crate::text::deceives;
use std::fmt::{Display, Write};

/// A page being written. What is not known when sbx is built can only be added as text.
#[derive(Debug, Default)]
pub(super) struct Html(String);

impl Html {
    /// Markup of our own.
    pub(super) fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Anything else; fit for content and for attributes in double quotes.
    pub(super) fn text(&mut self, text: impl Display) -> &mut Self {
        for c in text.to_string().chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                c if deceives(c) => self.0.extend(c.escape_unicode()),
                c => self.0.push(c),
            }
        }
        self
    }

    /// A number, for attributes of drawings.
    pub(super) fn number(&mut self, number: u64) -> &mut Self {
        let _ = write!(self.0, "{number}");
        self
    }

    /// A word between a tag that is opened and closed by us.
    pub(super) fn wrapped(
        &mut self,
        open: &'static str,
        text: impl Display,
        close: &'static str,
    ) -> &mut Self {
        self.raw(open).text(text).raw(close)
    }

    pub(super) fn finish(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_is_markup() {
        let mut html = Html::default();
        html.raw("<b title=\"").text("\"><script>alert('1')</script>&\u{202e}\u{1b}[2J").raw("\">");
        assert_eq!(
            html.finish(),
            "<b title=\"&quot;&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;\\u{202e}\\u{1b}[2J\">"
        );
    }
}
