//! What clients were told, and what must therefore hold.

use streamside_topology::DescriptionHash;

/// A push whose plugin call was decided on.
#[derive(Clone, Debug)]
pub struct Pushed {
    pub hash: DescriptionHash,
    /// When it was begun, in the order of everything.
    pub begun: u64,
    /// It was answered 0.
    pub good: bool,
}

/// One group id, over all its makings.
#[derive(Debug)]
pub struct GroupBook {
    pub id: String,
    pub pushes: Vec<Pushed>,
    /// The latest delete that was begun, for whatever reason.
    pub delete_begun: u64,
    /// The latest delete that was answered 0: by when it was begun.
    pub deleted: u64,
    /// The latest damage to its copy, or a read that pretended one.
    pub damaged: u64,
    /// Makings so far; part of what its members push.
    pub making: u64,
}

/// What a describe with an honest store has to show.
#[derive(Debug, PartialEq, Eq)]
pub enum Must {
    /// One of these.
    Show(Vec<DescriptionHash>),
    /// One of these, or nothing.
    AtMost(Vec<DescriptionHash>),
}

impl GroupBook {
    pub fn new(id: String) -> Self {
        Self { id, pushes: Vec::new(), delete_begun: 0, deleted: 0, damaged: 0, making: 0 }
    }

    /// Hashes that may be shown at all: no copy of before a delete comes back.
    pub fn allowed(&self) -> Vec<DescriptionHash> {
        self.pushes.iter().filter(|push| push.begun > self.deleted).map(|push| push.hash).collect()
    }

    /// A push that was answered 0 is shown unless a newer push or a delete was begun, or the store lost it. With one
    /// newer push it is that one or the other; with more, a failed one may have left what no mark vouches for.
    pub fn must(&self) -> Must {
        let latest = self.pushes.iter().filter(|push| push.good).max_by_key(|push| push.begun);
        let Some(latest) = latest.filter(|push| push.begun > self.delete_begun && push.begun > self.damaged) else {
            return Must::AtMost(self.allowed());
        };
        let newer: Vec<_> = self.pushes.iter().filter(|push| push.begun > latest.begun).collect();
        let mut shown = vec![latest.hash];
        shown.extend(newer.iter().map(|push| push.hash));
        if newer.len() < 2 { Must::Show(shown) } else { Must::AtMost(shown) }
    }
}
