//! Java's `.properties` format: comments, three separators, escapes, continued lines. Read as UTF-8.

/// One entry: line (from 1), key, value.
pub type Entry = (usize, String, String);

/// Splits a text into entries. The error holds the line and a phrase.
pub fn parse(text: &str) -> Result<Vec<Entry>, (usize, String)> {
    let mut entries = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let start = line.trim_start_matches([' ', '\t', '\u{c}', '\u{feff}']);
        if start.is_empty() || start.starts_with('#') || start.starts_with('!') {
            continue;
        }
        let mut logical = start.to_owned();
        // An odd number of backslashes at the end continues the line.
        while logical.bytes().rev().take_while(|b| *b == b'\\').count() % 2 == 1 {
            logical.pop();
            match lines.next() {
                Some((_, next)) => logical.push_str(next.trim_start_matches([' ', '\t', '\u{c}'])),
                None => break,
            }
        }
        let (key, value) = split(&logical);
        let unescape = |text: &str| unescape(text).map_err(|what| (index + 1, what));
        entries.push((index + 1, unescape(key)?, unescape(value)?));
    }
    Ok(entries)
}

/// Key and value, still escaped: the key ends at the first unescaped `=`, `:` or blank.
fn split(line: &str) -> (&str, &str) {
    let blank = |c: char| matches!(c, ' ' | '\t' | '\u{c}');
    let mut escaped = false;
    let end = line
        .char_indices()
        .find(|&(_, c)| {
            if escaped {
                escaped = false;
                return false;
            }
            escaped = c == '\\';
            blank(c) || c == '=' || c == ':'
        })
        .map_or(line.len(), |(at, _)| at);
    let (key, rest) = line.split_at(end);
    let rest = rest.trim_start_matches(blank);
    let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (key, rest.trim_start_matches(blank))
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    let mut units: Vec<u16> = Vec::new();
    while let Some(c) = chars.next() {
        let mut plain = Some(c);
        if c == '\\' {
            plain = match chars.next() {
                Some('t') => Some('\t'),
                Some('n') => Some('\n'),
                Some('r') => Some('\r'),
                Some('f') => Some('\u{c}'),
                Some('u') => {
                    let digits: String = chars.by_ref().take(4).collect();
                    let unit = u16::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 4);
                    units.push(unit.ok_or_else(|| format!("\\u{digits} is not a character"))?);
                    None
                }
                other => other,
            };
        }
        if let Some(plain) = plain {
            flush(&mut units, &mut out);
            out.push(plain);
        }
    }
    flush(&mut units, &mut out);
    Ok(out)
}

fn flush(units: &mut Vec<u16>, out: &mut String) {
    if !units.is_empty() {
        out.push_str(&String::from_utf16_lossy(units));
        units.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        parse(text).unwrap().into_iter().map(|(_, key, value)| (key, value)).collect()
    }

    #[test]
    fn separators_comments_and_blanks_are_those_of_java() {
        let text = "# no\n! no\n\n a = 1 \nb:2\nc 3\nd\ne==x\n\tf\t=\t g h\nk\\ e\\=y = v\n";
        let expected = [("a", "1 "), ("b", "2"), ("c", "3"), ("d", ""), ("e", "=x"), ("f", "g h"), ("k e=y", "v")];
        assert_eq!(pairs(text), expected.map(|(k, v)| (k.to_owned(), v.to_owned())));
    }

    #[test]
    fn lines_are_continued_and_escapes_read() {
        assert_eq!(
            pairs("a = x,\\\n    y\\\\\nb=\\u00e9\\t\\q\\ud83d\\ude00"),
            [("a".to_owned(), "x,y\\".to_owned()), ("b".to_owned(), "é\tq😀".to_owned()),]
        );
        assert_eq!(parse("x=1\r\ny=2\r\n").unwrap()[1], (2, "y".to_owned(), "2".to_owned()));
    }

    #[test]
    fn a_broken_escape_names_its_line() {
        assert_eq!(parse("a=1\nb=\\u12").unwrap_err().0, 2);
    }
}
