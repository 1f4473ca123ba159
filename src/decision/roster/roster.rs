//! The list of members that all proxies agree on.

use crate::decision::register::Program;
use crate::decision::register::electorate::Electorate;
use crate::quorum::{MasterId, MasterSet, Quorum};

/// The members of a cluster of masters, as decided.
///
/// It is kept as a register on the members themselves. The default is a cluster that was never founded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Roster {
    /// Id of the cluster, drawn at founding.
    pub cluster: String,
    /// Counts the changes; 0: not founded.
    pub version: u64,
    /// How far founding has come.
    pub stage: Stage,
    /// The members, in the order of the list that the cluster was founded with.
    pub members: Vec<Member>,
}

/// How far founding has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Marks are still to be set. Nothing is served.
    #[default]
    Founding,
    /// Every member had its mark once.
    Founded,
}

/// One master of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// Id of the member, drawn at founding. It stays when the instance behind it is replaced.
    pub id: u64,
    /// How often it was admitted. It names the memory that its votes rest on.
    pub incarnation: u64,
    /// The server's own id, drawn by Redis at its start (`run_id` in `INFO server`).
    pub run_id: String,
    /// The addresses that it was seen at.
    pub addresses: Vec<String>,
    /// Whether it votes.
    pub standing: Standing,
}

/// Whether a member votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// It votes, as soon as it has its mark.
    In {
        /// Nonce of the provisional mark that its mark replaces; 0 for a founder.
        nonce: u64,
    },
    /// It does not vote.
    Out {
        /// The version that put it out.
        since: u64,
    },
}

/// What a master shows of itself to those that ask about the roster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Incarnation in its mark, whatever the version beside it.
    pub incarnation: u64,
    /// The server's own id.
    pub run_id: String,
}

/// A change of the roster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// Founds the cluster, unless it is.
    Found(Box<Roster>),
    /// Every member has its mark: the cluster may serve.
    Founded,
    /// Puts a member out, unless it was admitted anew since.
    Out {
        /// The member.
        member: MasterId,
        /// The incarnation that has forgotten.
        incarnation: u64,
    },
    /// Takes a member in again, unless it was put out once more since.
    In {
        /// The member.
        member: MasterId,
        /// The version that put it out, before anything was copied.
        since: u64,
        /// Nonce of the provisional mark that it was copied under.
        nonce: u64,
        /// The server's own id.
        run_id: String,
    },
}

impl Roster {
    /// Returns the member at a place of the list.
    pub fn member(&self, master: MasterId) -> Option<&Member> {
        self.members.get(master.index())
    }

    /// The members that vote.
    pub fn voters(&self) -> MasterSet {
        let is_in = |(_, member): &(usize, &Member)| member.is_in();
        self.members.iter().enumerate().filter(is_in).map(|(at, _)| MasterId::new(at)).collect()
    }

    /// The version that put a member out, as long as it is.
    pub fn out_since(&self, master: MasterId) -> Option<u64> {
        match self.member(master)?.standing {
            Standing::Out { since } => Some(since),
            Standing::In { .. } => None,
        }
    }

    /// Whether enough would vote without `master`. With fewer, nothing could be decided any more.
    fn can_miss(&self, master: MasterId) -> bool {
        let mut rest = self.voters();
        rest.remove(master);
        Quorum::of(self.members.len()).reached_by(rest)
    }

    fn changed(&self, change: &Change) -> Option<Self> {
        let mut after = self.clone();
        after.version += 1;
        match change {
            Change::Found(roster) if self.version == 0 => after = (**roster).clone(),
            Change::Founded if self.version > 0 && self.stage == Stage::Founding => {
                after.stage = Stage::Founded;
            }
            Change::Out { member, incarnation } if self.can_miss(*member) => {
                let since = after.version;
                let member = after.members.get_mut(member.index())?;
                if !member.is_in() || member.incarnation != *incarnation {
                    return None;
                }
                member.standing = Standing::Out { since };
            }
            Change::In { member, since, nonce, run_id } => {
                if self.out_since(*member) != Some(*since) {
                    return None;
                }
                after.members.get_mut(member.index())?.admit(*nonce, run_id);
            }
            Change::Found(_) | Change::Founded | Change::Out { .. } => return None,
        }
        Some(after)
    }
}

impl Member {
    /// Whether it votes.
    pub fn is_in(&self) -> bool {
        matches!(self.standing, Standing::In { .. })
    }

    fn admit(&mut self, nonce: u64, run_id: &str) {
        self.standing = Standing::In { nonce };
        self.incarnation += 1;
        self.run_id = run_id.to_owned();
    }
}

impl Program for Change {
    type Value = Roster;
    /// The version of the changed roster; `None`: the change no longer applies, and nothing was changed.
    type Reply = Option<u64>;

    fn run(&self, before: &Roster) -> (Roster, Option<u64>) {
        match before.changed(self) {
            Some(after) => {
                let version = after.version;
                (after, Some(version))
            }
            None => (before.clone(), None),
        }
    }
}

/// The electorate of the roster itself: members that are in, as they are in the newest roster met.
///
/// It does not ask for the version in their marks: the roster is written before the marks are raised. But a member
/// that has forgotten and was admitted again is another voter: what its earlier incarnation promised does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Members;

impl Electorate<Roster> for Members {
    /// `None`: the master shows no mark of a member.
    type Credential = Option<Identity>;

    fn counts(&self, newest: &Roster, master: MasterId, shown: &Option<Identity>) -> bool {
        let (Some(member), Some(shown)) = (newest.member(master), shown) else { return false };
        member.is_in() && member.incarnation == shown.incarnation && member.run_id == shown.run_id
    }
}
