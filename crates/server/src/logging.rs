//! Logs: one line an event on standard error, as text or JSON, whatever a client put into it.

use std::io::{self, Write};
use std::sync::OnceLock;

use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, Registry, fmt};

use crate::config::{LogFormat, LogSettings};

type Reload = reload::Handle<Targets, Registry>;

static LEVEL: OnceLock<Reload> = OnceLock::new();

/// Reads `streamside.log.level`: a level, or levels by target.
pub fn parse_level(text: &str) -> Result<Targets, String> {
    let words = ["off", "error", "warn", "info", "debug", "trace"];
    let known = |level: &str| words.contains(&level.trim().to_ascii_lowercase().as_str());
    let good = !text.trim().is_empty()
        && text.split(',').all(|part| match part.split_once('=') {
            Some((target, level)) => !target.trim().is_empty() && known(level),
            None => known(part),
        });
    let parsed = if good { text.replace(' ', "").parse::<Targets>().ok() } else { None };
    parsed.ok_or_else(|| {
        "must be off, error, warn, info, debug or trace, or a list as info,streamside::shell=debug".to_owned()
    })
}

/// Starts logging for the process. A second call, and a level that does not parse, change nothing.
pub fn init(settings: &LogSettings) {
    let level = parse_level(&settings.level).unwrap_or_default();
    let (filter, handle) = reload::Layer::new(level);
    let layer = fmt::layer().with_writer(OneLine).with_ansi(false);
    let layer = match settings.format {
        LogFormat::Text => layer.boxed(),
        LogFormat::Json => layer.json().flatten_event(true).with_current_span(false).with_span_list(false).boxed(),
    };
    if tracing_subscriber::registry().with(layer.with_filter(filter)).try_init().is_ok() {
        let _ = LEVEL.set(handle);
    }
}

/// Changes the level of a running process.
pub fn set_level(text: &str) -> Result<(), String> {
    let level = parse_level(text)?;
    match LEVEL.get() {
        Some(handle) => handle.reload(level).map_err(|error| error.to_string()),
        None => Ok(()),
    }
}

/// Whether a character could break a line, colour a terminal, or turn its direction.
fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Text that came from outside, safe in a line of a log or a terminal. Escapes are those of JSON.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if is_hostile(c) => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            c => out.push(c),
        }
    }
    out
}

/// Gives the subscriber a writer to which each event is written at once.
struct OneLine;

impl<'a> MakeWriter<'a> for OneLine {
    type Writer = LineWriter<io::Stderr>;

    fn make_writer(&'a self) -> Self::Writer {
        LineWriter(io::stderr())
    }
}

/// Writes each whole event as one line.
struct LineWriter<W>(W);

impl<W: Write> Write for LineWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let plain = body.iter().all(|b| (0x20..0x7f).contains(b));
        if plain {
            self.0.write_all(bytes)?;
        } else {
            let mut line = escaped(&String::from_utf8_lossy(body));
            line.push('\n');
            self.0.write_all(line.as_bytes())?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_lists_are_read() {
        for good in ["info", "DEBUG", "off", "info,streamside::shell=debug", "warn, hyper=off"] {
            assert!(parse_level(good).is_ok(), "{good}");
        }
        for bad in ["", "loud", "info,x=loud", "=info", "info,,debug"] {
            assert!(parse_level(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_event_stays_one_line_whatever_is_in_it() {
        let mut out = Vec::new();
        let event = "INFO group=a\nERROR forged\r\u{1b}[31m red \u{202e}gnp.exe é 😀 \u{e0041}\n";
        LineWriter(&mut out).write_all(event.as_bytes()).unwrap();
        let line = String::from_utf8(out).unwrap();
        assert_eq!(line, "INFO group=a\\nERROR forged\\r\\u001b[31m red \\u202egnp.exe é 😀 \\udb40\\udc41\n");
    }

    #[test]
    fn a_json_event_is_still_json_with_the_same_text() {
        let text = "x\u{202e}\n\u{2028}y";
        let event = format!("{}\n", serde_json::json!({ "m": text }));
        let mut out = Vec::new();
        LineWriter(&mut out).write_all(event.as_bytes()).unwrap();
        let back: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(back["m"], text);
        assert!(!String::from_utf8(out).unwrap().contains('\u{202e}'));
    }
}
