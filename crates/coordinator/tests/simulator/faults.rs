//! What can go wrong, where the process can be killed, and how often either really happened.

use crate::dice::Dice;

macro_rules! listed {
    ($(#[$doc:meta])* $name:ident { $($(#[$each:meta])* $variant:ident,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$each])* $variant,)+ }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
        }
    };
}

listed! {
    /// A fault of plugin, store or journal.
    Fault {
        /// The plugin refuses for good.
        Permanent,
        /// It fails for now, and did nothing.
        Transient,
        /// It fails for now, and did what it was asked all the same.
        TransientDone,
        /// It breaks the contract.
        Contract,
        /// It is broken beyond the call.
        Fatal,
        /// It misses the deadline and succeeds later.
        LateSuccess,
        /// It misses the deadline and fails later.
        LateFailure,
        /// It misses the deadline and refuses later.
        LateRefusal,
        /// The call is not made.
        Busy,
        /// It ends during the call, the work done or not.
        PluginCrash,
        /// A read finds nothing.
        NullRead,
        /// A read gets bytes that do not decode.
        CorruptRead,
        /// A read fails.
        FailedRead,
        /// The store loses copies.
        LostStore,
        /// The store corrupts a copy.
        CorruptStore,
        /// A commit of the journal fails and the shard is loaded again.
        CommitFailure,
    }
}

listed! {
    /// Steps between decision and answer at which the process is killed.
    CrashPoint {
        HeartbeatBeforeJournal,
        HeartbeatBeforeReply,
        PushBeforeJournal,
        PushBeforePlugin,
        PushBeforeEffect,
        PushBeforeOutcome,
        PushOutcomeBeforeJournal,
        PushOutcomeBeforeReply,
        PushAfterReply,
        DeleteBeforeJournal,
        DeleteBeforePlugin,
        DeleteBeforeEffect,
        DeleteBeforeOutcome,
        DeleteOutcomeBeforeJournal,
        DeleteOutcomeBeforeReply,
        DeleteAfterReply,
        UnmarkBeforeJournal,
        UnmarkBeforeReply,
        SweepBeforeJournal,
        /// Within a commit: all of it is on disk, or nothing.
        CommitTorn,
    }
}

impl CrashPoint {
    pub fn is_of_delete(self) -> bool {
        use CrashPoint as P;
        matches!(
            self,
            P::DeleteBeforeJournal
                | P::DeleteBeforePlugin
                | P::DeleteBeforeEffect
                | P::DeleteBeforeOutcome
                | P::DeleteOutcomeBeforeJournal
                | P::DeleteOutcomeBeforeReply
                | P::DeleteAfterReply
        )
    }

    pub fn is_of_unmark(self) -> bool {
        matches!(self, Self::UnmarkBeforeJournal | Self::UnmarkBeforeReply)
    }

    /// Points that few schedules pass more than once.
    fn is_rare(self) -> bool {
        self.is_of_unmark() || self == Self::SweepBeforeJournal
    }
}

/// How often each was hit over all schedules.
#[derive(Debug, Default)]
pub struct Coverage {
    pub faults: [u32; Fault::ALL.len()],
    pub crashes: [u32; CrashPoint::ALL.len()],
}

impl Coverage {
    pub fn add(&mut self, other: &Self) {
        self.faults.iter_mut().zip(other.faults).for_each(|(sum, n)| *sum += n);
        self.crashes.iter_mut().zip(other.crashes).for_each(|(sum, n)| *sum += n);
    }

    pub fn table(&self) -> String {
        let faults = Fault::ALL.iter().map(|fault| format!("{fault:?}")).zip(self.faults);
        let crashes = CrashPoint::ALL.iter().map(|point| format!("{point:?}")).zip(self.crashes);
        faults.chain(crashes).map(|(name, n)| format!("{n:>8} {name}\n")).collect()
    }

    pub fn least(&self) -> u32 {
        self.faults.iter().chain(&self.crashes).copied().min().unwrap_or(0)
    }
}

/// What one schedule is about: a fault that comes often, and a place to be killed at.
#[derive(Clone, Debug)]
pub struct Plan {
    favourite: Fault,
    /// The point, and how often it is passed before.
    crash: Option<(CrashPoint, usize)>,
    pub calm: bool,
    pub coverage_faults: [u32; Fault::ALL.len()],
    pub coverage_crashes: [u32; CrashPoint::ALL.len()],
}

impl Plan {
    pub fn new(seed: u64, dice: &mut Dice) -> Self {
        let point = CrashPoint::ALL[seed as usize / 3 % CrashPoint::ALL.len()];
        let crash = dice.chance(80).then(|| (point, if point.is_rare() { 0 } else { dice.below(3) }));
        let favourite = match crash {
            Some((point, _)) if point.is_of_unmark() => dice.pick(&[Fault::NullRead, Fault::CorruptRead]),
            _ => Fault::ALL[seed as usize % Fault::ALL.len()],
        };
        Self {
            favourite,
            crash,
            calm: false,
            coverage_faults: [0; Fault::ALL.len()],
            coverage_crashes: [0; CrashPoint::ALL.len()],
        }
    }

    pub fn crash(&self) -> Option<CrashPoint> {
        self.crash.map(|(point, _)| point)
    }

    /// Whether one of these faults happens now.
    pub fn fault(&mut self, dice: &mut Dice, of: &[Fault]) -> Option<Fault> {
        if self.calm {
            return None;
        }
        let fault = if of.contains(&self.favourite) && dice.chance(35) {
            self.favourite
        } else if dice.chance(6) {
            dice.pick(of)
        } else {
            return None;
        };
        self.coverage_faults[fault as usize] += 1;
        Some(fault)
    }

    /// Whether the process is killed here.
    pub fn killed_at(&mut self, point: CrashPoint) -> bool {
        let Some((planned, passes)) = &mut self.crash else { return false };
        if self.calm || *planned != point {
            return false;
        }
        if *passes > 0 {
            *passes -= 1;
            return false;
        }
        self.crash = None;
        self.coverage_crashes[point as usize] += 1;
        true
    }
}
