//! Java's `.properties` text and the login line of `sasl.jaas.config`, read as Kafka's tools read them.

use std::collections::BTreeMap;

/// Reads the text of a `.properties` file; a key given twice keeps its last value.
///
/// Knows comments (`#`, `!`), the three separators (`=`, `:`, white space), continued lines, `\t \n \r \f` and `\uXXXX`.
#[must_use]
pub(crate) fn parse(text: &str) -> BTreeMap<String, String> {
    logical_lines(text).iter().map(|line| split(line)).filter(|(key, _)| !key.is_empty()).collect()
}

/// Joins continued lines and drops comments and empty lines; escapes are still in place.
fn logical_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut open: Option<String> = None;
    for natural in text.replace("\r\n", "\n").split(['\n', '\r']) {
        let natural = natural.trim_start_matches(BLANK);
        if open.is_none() && (natural.is_empty() || natural.starts_with(['#', '!'])) {
            continue;
        }
        let mut line = open.take().unwrap_or_default();
        // An odd number of backslashes at the end continues the line.
        let backslashes = natural.len() - natural.trim_end_matches('\\').len();
        if backslashes % 2 == 1 {
            line.push_str(natural.strip_suffix('\\').unwrap_or(natural));
            open = Some(line);
        } else {
            line.push_str(natural);
            lines.push(line);
        }
    }
    lines.extend(open);
    lines
}

const BLANK: [char; 3] = [' ', '\t', '\x0c'];

fn split(line: &str) -> (String, String) {
    let mut escaped = false;
    let mut end = line.len();
    for (at, c) in line.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '=' | ':' | ' ' | '\t' | '\x0c' => {
                end = at;
                break;
            }
            _ => {}
        }
    }
    let (key, rest) = line.split_at_checked(end).unwrap_or((line, ""));
    let rest = rest.trim_start_matches(BLANK);
    let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (unescape(key), unescape(rest.trim_start_matches(BLANK)))
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut units: Vec<u16> = Vec::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let plain = if c != '\\' {
            c
        } else {
            match chars.next() {
                Some('u') => {
                    let digits: String = chars.clone().take(4).collect();
                    if let Some(unit) = u16::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 4) {
                        // Two units may make one character.
                        units.push(unit);
                        chars.nth(3);
                        continue;
                    }
                    'u'
                }
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('f') => '\x0c',
                Some(other) => other,
                None => break,
            }
        };
        out.push_str(&String::from_utf16_lossy(&std::mem::take(&mut units)));
        out.push(plain);
    }
    out.push_str(&String::from_utf16_lossy(&units));
    out
}

/// The parts of `Module required key="value" … ;`.
#[cfg_attr(test, derive(Debug))]
pub(crate) struct Login {
    /// Class name of the login module.
    pub module: String,
    /// Its options.
    pub options: BTreeMap<String, String>,
}

/// Reads a `sasl.jaas.config` line; the error is a sentence without any part of the value.
pub(crate) fn parse_login(text: &str) -> Result<Login, &'static str> {
    let mut tokens = login_tokens(text)?.into_iter();
    let module = match tokens.next() {
        Some(Token::Word(name)) => name,
        _ => return Err("it must begin with the class name of a login module"),
    };
    match tokens.next() {
        Some(Token::Word(flag))
            if ["required", "requisite", "sufficient", "optional"].contains(&flag.to_ascii_lowercase().as_str()) => {}
        _ => return Err("after the login module must come `required`"),
    }
    let mut options = BTreeMap::new();
    loop {
        let key = match tokens.next() {
            Some(Token::Word(key)) => key,
            Some(Token::End) => break,
            _ => return Err("it must end with `;`"),
        };
        match (tokens.next(), tokens.next()) {
            (Some(Token::Equals), Some(Token::Word(value))) => options.insert(key, value),
            _ => return Err("its options must have the form key=\"value\""),
        };
    }
    match tokens.next() {
        None => Ok(Login { module, options }),
        Some(_) => Err("only one login module may be given"),
    }
}

enum Token {
    Word(String),
    Equals,
    End,
}

fn login_tokens(text: &str) -> Result<Vec<Token>, &'static str> {
    let mut tokens = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            c if c.is_whitespace() => {}
            ';' => tokens.push(Token::End),
            '=' => tokens.push(Token::Equals),
            '"' | '\'' => {
                let mut word = String::new();
                loop {
                    match chars.next() {
                        Some(end) if end == c => break,
                        Some('\\') => match chars.next() {
                            Some('n') => word.push('\n'),
                            Some('t') => word.push('\t'),
                            Some(other) => word.push(other),
                            None => return Err("a quoted value does not end"),
                        },
                        Some(other) => word.push(other),
                        None => return Err("a quoted value does not end"),
                    }
                }
                tokens.push(Token::Word(word));
            }
            c => {
                let mut word = String::from(c);
                while let Some(more) = chars.next_if(|c| !c.is_whitespace() && !";=\"'".contains(*c)) {
                    word.push(more);
                }
                tokens.push(Token::Word(word));
            }
        }
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_read_as_java_reads_them() {
        let read = parse(concat!(
            "# comment\n",
            "  ! another = no\n",
            "\n",
            "plain=a\n",
            "colon : b \n",
            "blank\tc = d\n",
            "key\\=with\\:marks = e\n",
            "long = one, \\\n    two, \\\r\n    three\n",
            "path=C:\\\\dir\\tx\n",
            "uni=\\u00e9\\uD83D\\uDE00!\n",
            "empty=\n",
            "bare\n",
            "twice=1\ntwice=2\n",
            "end=x\\"
        ));
        let expected = [
            ("bare", ""),
            ("blank", "c = d"),
            ("colon", "b "),
            ("empty", ""),
            ("end", "x"),
            ("key=with:marks", "e"),
            ("long", "one, two, three"),
            ("path", "C:\\dir\tx"),
            ("plain", "a"),
            ("twice", "2"),
            ("uni", "é😀!"),
        ];
        let read: Vec<(&str, &str)> = read.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(read, expected);
    }

    #[test]
    fn a_login_line_gives_module_and_options() {
        let login = parse_login(
            "org.apache.kafka.common.security.scram.ScramLoginModule required username=\"al\\\"ice\" password='p;= x' ;",
        )
        .expect("a good line");
        assert_eq!(login.module, "org.apache.kafka.common.security.scram.ScramLoginModule");
        assert_eq!(login.options.get("username").map(String::as_str), Some("al\"ice"));
        assert_eq!(login.options.get("password").map(String::as_str), Some("p;= x"));
    }

    #[test]
    fn a_bad_login_line_is_told_without_its_secret() {
        for (line, told) in [
            ("", "it must begin with the class name of a login module"),
            ("M username=\"u\";", "after the login module must come `required`"),
            ("M required password=\"secret\"", "it must end with `;`"),
            ("M required password;", "its options must have the form key=\"value\""),
            ("M required password=\"secret", "a quoted value does not end"),
            ("M required a=\"b\"; N required;", "only one login module may be given"),
        ] {
            assert_eq!(parse_login(line).err(), Some(told), "{line}");
        }
    }
}
