//! The durable mark: what we know about a group's stored description, and how it changes.
//!
//! Kafka keeps two epochs, S and F (spec kip1331 §0.2). A mark says the same and more: S is the served epoch while the
//! mark is certain, -2 while it is uncertain, -1 when nothing is served; F is the epoch of the refusal. Every
//! transition is a pure function here; under [`Compat::Kafka`] they are those of kip1331 §§4.3-4.4 to the letter.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use streamside_topology::{DescriptionHash, Fingerprint};

use super::reason::Reason;
use crate::config::{Compat, Limits};
use crate::facts::GroupFacts;
use crate::input::Millis;

/// A description that was handed to the plugin, and for which group it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handed {
    /// Topology epoch it was set for.
    pub epoch: i32,
    /// Of its canonical bytes.
    pub hash: DescriptionHash,
    /// Of the assignment topology at that time.
    pub fingerprint: Option<Fingerprint>,
    /// The making of the group it belongs to.
    pub incarnation: u64,
    /// Of the plugin call.
    pub sequence: u64,
}

impl Handed {
    /// Whether this copy describes the group as it is now. An unknown fingerprint fits everything.
    #[must_use]
    pub fn fits(&self, facts: &GroupFacts) -> bool {
        self.incarnation == facts.incarnation && self.fits_topology(facts)
    }

    /// Whether this copy may be shown for the group as it is now (H12).
    #[must_use]
    pub fn fits_to_show(&self, facts: &GroupFacts) -> bool {
        (facts.guessed || self.incarnation == facts.incarnation) && self.fits_topology(facts)
    }

    fn fits_topology(&self, facts: &GroupFacts) -> bool {
        self.epoch == facts.topology_epoch && fingerprints_fit(self.fingerprint, facts.fingerprint)
    }
}

fn fingerprints_fit(kept: Option<Fingerprint>, present: Option<Fingerprint>) -> bool {
    match (kept, present) {
        (Some(kept), Some(present)) => kept == present,
        _ => true,
    }
}

/// Bounds that a refusal was made under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Bounds {
    pub bytes: u64,
    pub nodes: u64,
    pub name_bytes: u64,
}

impl From<&Limits> for Bounds {
    fn from(limits: &Limits) -> Self {
        Self {
            bytes: limits.description_max_bytes as u64,
            nodes: limits.description_max_nodes as u64,
            name_bytes: limits.description_max_name_bytes as u64,
        }
    }
}

/// A permanent refusal, and everything that it depends on (H2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// F: the epoch that was refused.
    pub epoch: i32,
    /// Of the refused bytes.
    pub hash: DescriptionHash,
    /// Of the assignment topology then.
    pub fingerprint: Option<Fingerprint>,
    /// The making of the group.
    pub incarnation: u64,
    /// Identity of the plugin then.
    pub plugin: Arc<str>,
    /// Limits then.
    pub bounds: Bounds,
    /// Why.
    pub reason: Reason,
    /// What the pushing client was told, and is told again for the same bytes.
    pub message: Option<String>,
}

/// What is known about the stored description of one group. Journalled as kind 1024; the default says that the plugin
/// holds nothing and refused nothing, and is never journalled: it is the absence of a mark.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The copy that the plugin confirmed last.
    pub served: Option<Handed>,
    /// The copy that a set under way, or a failed one, may have left behind.
    pub pending: Option<Handed>,
    /// The plugin may or may not hold something (S = -2).
    pub uncertain: bool,
    /// F with all that it depends on.
    pub failed: Option<Refusal>,
    /// Identity of the plugin that the mark speaks of.
    pub plugin: Arc<str>,
    /// Of the latest plugin call that may change this group's copy.
    pub sequence: u64,
    /// Of the latest delete call.
    pub cleared: u64,
    /// When a plugin call for the group was last begun.
    pub last_seen: Millis,
}

/// Kafka's S in words, and whether a description is waiting or refused besides. Labels of the transition table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MarkState {
    /// S = -1.
    Nothing,
    /// S = -1, F known.
    Refused,
    /// S = -2, no copy can be served.
    UncertainBlank,
    /// S = -2, a copy with a known hash can be served (H4).
    UncertainHolding,
    /// S = -2, F known, no copy can be served.
    UncertainRefused,
    /// S = -2, F known, a copy with a known hash can be served (H4).
    UncertainHoldingRefused,
    /// S >= 0.
    Stored,
    /// S >= 0, F known.
    StoredRefused,
}

/// The state of a mark that a read belongs to; handed back with the read's outcome as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadToken {
    pub(crate) sequence: u64,
    pub(crate) uncertain: bool,
    pub(crate) served: Option<DescriptionHash>,
    pub(crate) pending: Option<DescriptionHash>,
}

impl Mark {
    /// Word for metrics: `full`, `refused`, `uncertain`, or `none` when there is neither a copy nor a refusal.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match (self.uncertain, self.served.is_some(), self.failed.is_some()) {
            (false, true, _) => "full",
            (_, _, true) => "refused",
            (true, _, false) => "uncertain",
            (false, false, false) => "none",
        }
    }

    /// Kafka's S (spec kip1331 §0.2).
    #[must_use]
    pub fn stored_epoch(&self) -> i32 {
        match (self.uncertain, &self.served) {
            (true, _) => -2,
            (false, Some(served)) => served.epoch,
            (false, None) => -1,
        }
    }

    /// Kafka's F.
    #[must_use]
    pub fn failed_epoch(&self) -> i32 {
        self.failed.as_ref().map_or(-1, |failed| failed.epoch)
    }

    /// S is not -1: a delete has to call the plugin.
    #[must_use]
    pub fn may_hold(&self) -> bool {
        self.stored_epoch() != -1
    }

    /// The row of the transition table.
    #[must_use]
    pub fn state(&self) -> MarkState {
        let holding = self.served.is_some() || self.pending.is_some();
        match (self.uncertain, holding, self.failed.is_some()) {
            (false, false, false) => MarkState::Nothing,
            (false, false, true) => MarkState::Refused,
            (false, true, false) => MarkState::Stored,
            (false, true, true) => MarkState::StoredRefused,
            (true, false, false) => MarkState::UncertainBlank,
            (true, false, true) => MarkState::UncertainRefused,
            (true, true, false) => MarkState::UncertainHolding,
            (true, true, true) => MarkState::UncertainHoldingRefused,
        }
    }

    /// Nothing is known: the mark is not kept.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.state() == MarkState::Nothing
    }

    /// The description is stored for the group as it is now (spec kip1331 §3.2 row 6).
    #[must_use]
    pub fn stored_for(&self, compat: Compat, facts: &GroupFacts) -> bool {
        match compat {
            Compat::Kafka => self.stored_epoch() == facts.topology_epoch,
            Compat::Streamside => !self.uncertain && self.served.is_some_and(|served| served.fits(facts)),
        }
    }

    /// The refusal that keeps members from being asked (spec kip1331 §3.2 row 7, H2).
    #[must_use]
    pub fn refusal_for(&self, compat: Compat, facts: &GroupFacts, plugin: &str, bounds: Bounds) -> Option<&Refusal> {
        self.failed.as_ref().filter(|failed| {
            failed.epoch == facts.topology_epoch
                && (compat == Compat::Kafka
                    || (failed.incarnation == facts.incarnation
                        && &*failed.plugin == plugin
                        && failed.bounds == bounds
                        && fingerprints_fit(failed.fingerprint, facts.fingerprint)))
        })
    }

    /// Which copies a describe of the group may show; `None`: do not read (spec kip1331 §5.2, H4).
    #[must_use]
    pub fn readable(&self, compat: Compat, facts: &GroupFacts) -> Option<ReadToken> {
        let hash_of = |copy: Option<Handed>| copy.filter(|copy| copy.fits_to_show(facts)).map(|copy| copy.hash);
        let (served, pending) = match compat {
            Compat::Kafka if self.stored_epoch() != facts.topology_epoch => return None,
            Compat::Kafka => (self.served.map(|served| served.hash), None),
            Compat::Streamside => (hash_of(self.served), hash_of(self.pending)),
        };
        (served.is_some() || pending.is_some()).then_some(ReadToken {
            sequence: self.sequence,
            uncertain: self.uncertain,
            served,
            pending,
        })
    }

    /// The uncertain mark of a push (spec kip1331 §4.4). Ours keeps the copies that may still be served.
    #[must_use]
    pub fn set_begun(&self, compat: Compat, handed: Handed, plugin: &Arc<str>, at: Millis) -> Self {
        let mut next = self.clone();
        next.uncertain = true;
        next.plugin = Arc::clone(plugin);
        next.sequence = handed.sequence;
        next.last_seen = at;
        match compat {
            Compat::Kafka => {
                next.served = None;
                next.pending = None;
            }
            Compat::Streamside => next.pending = Some(handed),
        }
        next
    }

    /// The plugin took a description (spec kip1331 §4.3). Ours go by the order of calls instead of by S alone: the
    /// newest call decides, an older one before a newer set is the copy to serve meanwhile, all else came too late (H3).
    #[must_use]
    pub fn set_succeeded(&self, compat: Compat, handed: Handed) -> Self {
        let mut next = self.clone();
        match compat {
            Compat::Kafka => match self.stored_epoch() {
                -2 => {
                    next.uncertain = false;
                    next.served = Some(handed);
                }
                // A delete finished meanwhile: nobody knows which call came last.
                -1 => next.uncertain = true,
                stored if stored < handed.epoch => next.served = Some(handed),
                _ => {}
            },
            Compat::Streamside if handed.sequence == self.sequence => {
                next.uncertain = false;
                next.served = Some(handed);
                next.pending = None;
                next.failed = None;
            }
            Compat::Streamside => {
                let newest_copy = self.served.is_none_or(|served| served.sequence < handed.sequence);
                let before_a_set = self.uncertain && self.pending.is_some() && handed.sequence < self.sequence;
                if before_a_set && handed.sequence > self.cleared && newest_copy {
                    next.served = Some(handed);
                }
            }
        }
        next
    }

    /// The plugin, or a limit, refused for good (spec kip1331 §4.3: F = max(F, P), S unchanged).
    #[must_use]
    pub fn refused(&self, refusal: Refusal) -> Self {
        let mut next = self.clone();
        if self.failed_epoch() <= refusal.epoch {
            next.failed = Some(refusal);
        }
        next
    }

    /// The call was not made after all (H3, busy): the mark from before it, with what older calls settled meanwhile.
    #[must_use]
    pub fn withdrawn(&self, sequence: u64, before: &Self) -> Self {
        if self.sequence != sequence {
            return self.clone();
        }
        let mut next = before.clone();
        next.failed.clone_from(&self.failed);
        if let Some(served) = self.served.filter(|served| before.served != Some(*served)) {
            next = next.set_succeeded(Compat::Streamside, served);
        }
        next
    }

    /// The uncertain mark of a delete (spec kip1331 §4.4): no copy is served any more.
    #[must_use]
    pub fn delete_begun(&self, sequence: u64, at: Millis) -> Self {
        Self {
            served: None,
            pending: None,
            uncertain: true,
            failed: self.failed.clone(),
            plugin: Arc::clone(&self.plugin),
            sequence,
            cleared: sequence,
            last_seen: at,
        }
    }

    /// The plugin deleted; the group stays for now (spec kip1331 §4.4, finalize). Ours ignore it when a newer call has
    /// been begun (H3).
    #[must_use]
    pub fn delete_succeeded(&self, compat: Compat, sequence: u64) -> Self {
        let mut next = self.clone();
        match compat {
            Compat::Kafka if self.uncertain => next.uncertain = false,
            Compat::Kafka if self.served.is_some() => {
                next.uncertain = true;
                next.served = None;
            }
            Compat::Streamside if self.sequence == sequence => {
                next.uncertain = false;
                next.served = None;
                next.pending = None;
            }
            _ => {}
        }
        next
    }

    /// The plugin turned out not to have the copy (H1). What else it holds is unknown, so a delete still calls it.
    #[must_use]
    pub fn lost(&self) -> Self {
        Self { served: None, pending: None, uncertain: true, failed: None, ..self.clone() }
    }

    /// The same bytes were pushed again for a group that may be another one of this name (H4, H12).
    #[must_use]
    pub fn confirmed_for(&self, facts: &GroupFacts) -> Self {
        let mut next = self.clone();
        if let Some(served) = &mut next.served {
            served.incarnation = facts.incarnation;
            served.fingerprint = facts.fingerprint.or(served.fingerprint);
        }
        next
    }

    /// The group of `incarnation` and all before it are gone without the plugin having been told: what it holds is to be
    /// deleted. `keep`: the making that there is now, whose copies stay.
    #[must_use]
    pub fn orphaned(&self, keep: Option<u64>) -> Self {
        let stays = |incarnation: u64| keep == Some(incarnation);
        let mut next = self.clone();
        next.served = self.served.filter(|served| stays(served.incarnation));
        next.pending = self.pending.filter(|pending| stays(pending.incarnation));
        next.failed = self.failed.clone().filter(|failed| stays(failed.incarnation));
        if next.served.is_none() && next.pending.is_none() {
            next.uncertain = self.may_hold();
            next.cleared = self.sequence;
        }
        next
    }

    /// The making of the group that the mark speaks of.
    #[must_use]
    pub fn incarnation(&self) -> Option<u64> {
        let refused = self.failed.as_ref().map(|failed| failed.incarnation);
        self.pending.or(self.served).map(|copy| copy.incarnation).or(refused)
    }

    /// The plugin may hold something, and nothing that could be served.
    #[must_use]
    pub fn is_bare(&self) -> bool {
        self.uncertain && self.served.is_none() && self.pending.is_none()
    }

    /// An operator's retry (H2).
    #[must_use]
    pub fn retried(&self) -> Self {
        Self { failed: None, ..self.clone() }
    }
}
