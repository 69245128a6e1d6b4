//! Text that came from a client, made harmless for a terminal or a log line.

use std::borrow::Cow;
use std::fmt::{self, Display, Write};

/// Whether a character could move the cursor, end a line, change the reading direction or hide text.
pub fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{00ad}' | '\u{061c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

/// Escapes control characters (C0, DEL, C1), line and paragraph separators, bidi marks and invisible marks as `\n`,
/// `\r`, `\t` or `\u{hex}`. Joiners stay, since scripts and emoji need them. Borrowed when nothing had to change.
pub fn sanitize(text: &str) -> Cow<'_, str> {
    if text.chars().any(is_hostile) { Cow::Owned(Sanitized(text).to_string()) } else { Cow::Borrowed(text) }
}

/// Displays its text as [`sanitize`] would give it, without a copy.
#[derive(Clone, Copy, Debug)]
pub struct Sanitized<'a>(pub &'a str);

impl Display for Sanitized<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for piece in self.0.split_inclusive(is_hostile) {
            let mut chars = piece.chars();
            match chars.next_back() {
                Some(c) if is_hostile(c) => {
                    f.write_str(chars.as_str())?;
                    match c {
                        '\n' => f.write_str("\\n")?,
                        '\r' => f.write_str("\\r")?,
                        '\t' => f.write_str("\\t")?,
                        c => write!(f, "\\u{{{:x}}}", u32::from(c))?,
                    }
                }
                _ => f.write_str(piece)?,
            }
        }
        Ok(())
    }
}

/// How a writer puts names out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Escape {
    /// As they are: for files, pipes and comparison.
    #[default]
    Exact,
    /// Through [`sanitize`]: for terminals and logs.
    Terminal,
}

impl Escape {
    /// Writes one name.
    pub(crate) fn put(self, out: &mut dyn Write, name: &str) -> fmt::Result {
        match self {
            Self::Exact => out.write_str(name),
            Self::Terminal => write!(out, "{}", Sanitized(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_characters_are_shown_not_obeyed() {
        assert_eq!(sanitize("a\u{1b}[2Jb\nc\u{202e}d"), "a\\u{1b}[2Jb\\nc\\u{202e}d");
        assert_eq!(sanitize("\u{0}\u{7f}\u{9b}\t\r\u{2066}\u{feff}"), "\\u{0}\\u{7f}\\u{9b}\\t\\r\\u{2066}\\u{feff}");
    }

    #[test]
    fn ordinary_text_is_borrowed_and_equal() {
        let emoji = "größe 店 <b> \u{1f469}\u{200d}\u{1f4bb} \\n";
        assert!(matches!(sanitize(emoji), Cow::Borrowed(t) if t == emoji));
        assert_eq!(sanitize(""), "");
    }
}
