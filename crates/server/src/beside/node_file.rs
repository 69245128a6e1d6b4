//! The node map on disk: `nodes.json` in the data folder. It is written whole or not at all; one that cannot be read is
//! put aside and made anew, since it holds nothing that the cluster cannot tell again.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::data_dir::{self, DataDirError};

/// The form that this build writes.
const FORM: u32 = 1;
/// Longest file that is read: 1000 nodes with the longest names have less.
const MAX_BYTES: u64 = 1 << 20;

/// What is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFile {
    form: u32,
    /// The bootstrap listener's port that the ports were counted from.
    pub listener: u16,
    /// The cluster's id, where it is known.
    pub cluster: Option<String>,
    /// In the order of their ids.
    pub nodes: Vec<KeptNode>,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptNode {
    /// Its id.
    pub id: i32,
    /// Where it is.
    pub host: String,
    /// And on which port.
    pub port: u16,
    /// The port of ours that stands for it.
    pub ours: u16,
}

/// The file's place.
#[must_use]
pub fn path(data_dir: &Path) -> PathBuf {
    data_dir.join("nodes.json")
}

impl NodeFile {
    /// To be filled.
    #[must_use]
    pub fn new(listener: u16, cluster: Option<String>, nodes: Vec<KeptNode>) -> Self {
        Self { form: FORM, listener, cluster, nodes }
    }

    /// Reads what was kept. A file that makes no sense is put aside, told in the log, and counts as empty.
    #[must_use]
    pub fn read(path: &Path) -> Self {
        match read(path) {
            Ok(kept) => kept.unwrap_or_default(),
            Err(reason) => {
                let aside = path.with_extension("json.damaged");
                let moved = std::fs::rename(path, &aside);
                tracing::warn!(
                    file = %path.display(),
                    "the node map cannot be read ({reason}); it is {} and made anew from what the cluster says",
                    if moved.is_ok() { format!("kept as {}", aside.display()) } else { "left".to_owned() }
                );
                Self::default()
            }
        }
    }

    /// Writes it so that a crash leaves either the old or the new one.
    ///
    /// # Errors
    /// What the system said.
    pub fn write(&self, path: &Path) -> Result<(), DataDirError> {
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        data_dir::write_whole(path, &format!("{text}\n"))
    }
}

fn read(path: &Path) -> Result<Option<NodeFile>, String> {
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e.to_string()),
    };
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text).map_err(|e| e.to_string())?;
    let kept: NodeFile = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    if kept.form != FORM {
        return Err(format!("its form is {} and this build knows {FORM}", kept.form));
    }
    let mut ids: Vec<i32> = kept.nodes.iter().map(|n| n.id).collect();
    let mut ports: Vec<u16> = kept.nodes.iter().map(|n| n.ours).collect();
    for list in [ids.len(), ports.len()] {
        if list > super::nodes::MAX_NODES {
            return Err(format!("it names {list} nodes"));
        }
    }
    ids.sort_unstable();
    ids.dedup();
    ports.sort_unstable();
    ports.dedup();
    if ids.len() != kept.nodes.len() || ports.len() != kept.nodes.len() {
        return Err("it names a node or a port twice".to_owned());
    }
    if kept.nodes.iter().any(|n| n.id < 0 || n.port == 0 || n.ours == 0 || n.host.is_empty()) {
        return Err("it names a node that cannot be".to_owned());
    }
    Ok(Some(kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_what_is_torn_is_put_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = path(folder.path());
        assert_eq!(NodeFile::read(&path), NodeFile::default());
        let node = KeptNode { id: 1, host: "kafka-1".to_owned(), port: 9092, ours: 19094 };
        let kept = NodeFile::new(19092, Some("abc".to_owned()), vec![node.clone()]);
        kept.write(&path).unwrap();
        assert_eq!(NodeFile::read(&path), kept);
        let text = std::fs::read_to_string(&path).unwrap();
        for torn in [&text[..text.len() / 2], "", "[]", &text.replace("\"form\": 1", "\"form\": 2")] {
            std::fs::write(&path, torn).unwrap();
            assert_eq!(NodeFile::read(&path), NodeFile::default(), "{torn}");
            assert!(!path.exists() && path.with_extension("json.damaged").exists());
        }
        let twice = NodeFile::new(1, None, vec![node.clone(), KeptNode { id: 2, ..node.clone() }]);
        twice.write(&path).unwrap();
        assert_eq!(NodeFile::read(&path), NodeFile::default());
        NodeFile::new(1, None, vec![KeptNode { id: -1, ..node }]).write(&path).unwrap();
        assert_eq!(NodeFile::read(&path), NodeFile::default());
    }
}
