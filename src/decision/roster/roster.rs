//! List of members that all proxies agree on.

use serde::{Deserialize, Serialize};

use super::seating::Seating;
use super::shards::Shard;
use crate::decision::quorum::{MasterId, MasterSet, Quorum};
use crate::decision::register::electorate::RegisterElectorate;
use crate::decision::register::{Program, StateOf};

/// Members of a cluster of masters, as decided.
///
/// The roster is kept as a register on the members themselves. The default is a cluster that was never founded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Roster {
    /// Id of the cluster, drawn at founding.
    pub cluster: String,
    /// Number of changes; 0 if the cluster is not founded.
    pub version: u64,
    /// Progress of the founding.
    pub stage: Stage,
    /// Number of times that the roster began anew after a quorum had forgotten.
    #[serde(default)]
    pub losses: u64,
    /// Members by place. Places are in the order of the list that the cluster was founded with, and are never moved.
    pub members: Vec<Member>,
    /// Since when there are as many seats as there are, and how many there were before.
    #[serde(default, skip_serializing_if = "Seating::is_first")]
    pub seating: Seating,
    /// Member that votes until the others hold everything that it may be needed for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaving: Option<Leaving>,
    /// Part of the cluster in a deployment of several; `None` if it serves all keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Box<Shard>>,
}

/// Progress of the founding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Stage {
    /// Marks are still to be set. Nothing is served.
    #[default]
    Founding,
    /// Every member has had its mark.
    Founded,
}

/// One master of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Member {
    /// Id of the member, drawn at founding. It stays when the instance behind it is replaced.
    pub id: u64,
    /// Number of times that the member was admitted. It identifies the memory that its votes rest on.
    pub incarnation: u64,
    /// The server's own id, drawn by Redis when it starts (`run_id` in `INFO server`).
    pub run_id: String,
    /// Addresses at which the member was seen.
    pub addresses: Vec<String>,
    /// Whether the member votes.
    pub standing: Standing,
    /// Where proxies find the member since its instance was replaced, whatever their lists say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<NewPlace>,
    /// Addresses of replaced instances. Lists may still have them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former: Vec<String>,
}

/// The place of an instance that has replaced another one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NewPlace {
    /// Address of the instance.
    pub address: String,
    /// Version of the replacement.
    pub since: u64,
}

/// Whether a member votes, and whether its place is a seat: one of those that a quorum is a majority of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Standing {
    /// The member votes, as soon as it has its mark.
    In {
        /// Nonce of the provisional mark that its mark replaces; 0 for a founder.
        nonce: u64,
    },
    /// The member does not vote.
    Out {
        /// Version that excluded the member.
        since: u64,
    },
    /// The member is new. It is copied to, and gets its seat when it is in.
    Joining {
        /// Version that added the member.
        since: u64,
    },
    /// Nobody has the seat. It counts like that of a member that is out.
    Vacant,
    /// The place is no seat: nobody has it, and no quorum counts it.
    Closed,
}

/// Member that is to leave together with a vacant seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Leaving {
    /// Place of the member.
    pub place: usize,
    /// Version since which it is to leave.
    pub since: u64,
}

/// Identification of a master in answers about the roster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Cluster in its mark.
    pub cluster: String,
    /// Incarnation in its mark, whatever the mark's version.
    pub incarnation: u64,
    /// The server's own id.
    pub run_id: String,
}

/// A change of the roster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// Founds the cluster, unless it is founded.
    Found(Box<Roster>),
    /// Records that every member has its mark: the cluster may serve.
    Founded,
    /// Takes the list of the clusters that serve together, unless the cluster has one.
    Together {
        /// Ids of the clusters, in the order of the names of their shards.
        clusters: Vec<String>,
    },
    /// Excludes a member, unless it was admitted anew since.
    Out {
        /// Member to exclude.
        member: MasterId,
        /// Incarnation that has forgotten.
        incarnation: u64,
    },
    /// Admits a member again, unless it was excluded once more since.
    In {
        /// Member to admit.
        member: MasterId,
        /// Version that excluded the member, before anything was copied.
        since: u64,
        /// Nonce of the provisional mark that it was copied under.
        nonce: u64,
        /// The server's own id.
        run_id: String,
        /// Address at which the member was reached.
        address: String,
    },
    /// Gives a member's place to another instance, which is admitted like one that has forgotten.
    Replace {
        /// Member whose instance is replaced.
        member: MasterId,
        /// Incarnation of that instance.
        incarnation: u64,
        /// Version that excluded the member, if it is out: nobody else has replaced the instance meanwhile.
        since: Option<u64>,
        /// Address of the new instance.
        address: String,
    },
    /// Adds an instance. It takes a vacant seat, or gets a new one when it is in.
    Join {
        /// Id of the member, if it gets a new place.
        id: u64,
        /// Address of the instance.
        address: String,
    },
    /// Makes a member's seat vacant.
    Vacate {
        /// Member to remove.
        member: MasterId,
        /// Its incarnation.
        incarnation: u64,
    },
    /// Announces that a member is to leave together with the vacant seat.
    Leave {
        /// Member to remove.
        member: MasterId,
        /// Its incarnation.
        incarnation: u64,
    },
    /// Gives up what [`Change::Join`] or [`Change::Leave`] began.
    GiveUp {
        /// Version that began it.
        since: u64,
    },
    /// Closes the seats of the member that is to leave and of nobody: the others hold everything.
    Left {
        /// Version since which it is to leave, before anything was levelled.
        since: u64,
    },
    /// Notes an address of a member. The version stays: no vote depends on it.
    SeenAt {
        /// Member that was reached.
        member: MasterId,
        /// Address at which it was reached.
        address: String,
    },
    /// Begins anew after a quorum has forgotten, unless another proxy already did. Forgotten data may be lost.
    Restart {
        /// Version whose members were found to have forgotten. Members of a later version may remember.
        known: u64,
        /// Roster to begin with.
        anew: Box<Roster>,
    },
}

impl Roster {
    /// Returns the member at an index of the list.
    pub fn member(&self, master: MasterId) -> Option<&Member> {
        self.members.get(master.index())
    }

    /// Returns the members that vote.
    pub fn voters(&self) -> MasterSet {
        let is_in = |(_, member): &(usize, &Member)| member.is_in();
        self.members.iter().enumerate().filter(is_in).map(|(at, _)| MasterId::new(at)).collect()
    }

    /// Returns the version that excluded a member, while it is out.
    pub fn out_since(&self, master: MasterId) -> Option<u64> {
        match self.member(master)?.standing {
            Standing::Out { since } | Standing::Joining { since } => Some(since),
            Standing::In { .. } | Standing::Vacant | Standing::Closed => None,
        }
    }

    /// Returns the quorum of the seats.
    pub fn quorum(&self) -> Quorum {
        let places = (0..self.members.len()).filter(|at| self.members[*at].has_seat());
        Quorum::among(places.map(MasterId::new).collect())
    }

    /// Returns the address at which each member was seen last, separated by commas.
    pub fn addresses(&self) -> String {
        let last = self.members.iter().filter_map(|member| member.addresses.last());
        last.map(String::as_str).collect::<Vec<_>>().join(",")
    }

    /// Returns the number of members.
    pub fn size(&self) -> usize {
        self.members.iter().filter(|member| member.is_somebody()).count()
    }

    /// Returns the number of seats, vacant ones included.
    pub fn seats(&self) -> usize {
        self.members.iter().filter(|member| member.has_seat()).count()
    }

    /// Whether a master may act for a member that is in, on the roster itself.
    ///
    /// Its mark need not show this version: the roster is written before the marks are raised. But a member that has
    /// forgotten and was admitted again is another voter: promises of its earlier incarnation do not count. A member
    /// that has yet to receive its mark shows the provisional one by which it was admitted.
    ///
    /// Members are found by the server's own id, since a proxy may have its masters in another order. A place that a
    /// master has left keeps its id.
    pub fn is_member(&self, shown: &Presence) -> bool {
        let shows = |member: &&Member| member.run_id == shown.run_id;
        self.members.iter().filter(shows).any(|member| member.is_proved(&self.cluster, shown))
    }

    /// Whether a member has this address.
    pub fn knows(&self, address: &str) -> bool {
        self.members.iter().any(|member| member.is_at(address))
    }

    /// Whether `other` continues this roster, or this one belongs to no cluster.
    fn is_before(&self, other: &Self) -> bool {
        self.version < other.version && (self.version == 0 || self.cluster == other.cluster)
    }

    /// Whether enough members would vote without `master`. With fewer, nothing could be decided any more.
    pub(super) fn can_miss(&self, master: MasterId) -> bool {
        let mut rest = self.voters();
        rest.remove(master);
        self.quorum().reached_by(rest)
    }

    fn changed(&self, change: &Change) -> Option<Self> {
        let mut after = self.clone();
        after.version += 1;
        match change {
            Change::Found(roster) if self.version == 0 => after = (**roster).clone(),
            Change::Restart { known, anew } if self.version <= *known && self.is_before(anew) => {
                after = (**anew).clone();
            }
            Change::SeenAt { member, address } => {
                after.version = self.version;
                if !after.members.get_mut(member.index())?.meet_at(address) {
                    return None;
                }
            }
            Change::Founded if self.version > 0 && self.stage == Stage::Founding => {
                after.stage = Stage::Founded;
            }
            Change::Together { clusters } if self.stage == Stage::Founded => {
                let shard = self.shard.as_ref()?;
                after.shard = Some(Box::new(shard.together(&self.cluster, clusters)?));
            }
            Change::Out { member, incarnation } if self.can_miss(*member) => {
                let since = after.version;
                let member = after.members.get_mut(member.index())?;
                if !member.is_in() || member.incarnation != *incarnation {
                    return None;
                }
                member.standing = Standing::Out { since };
            }
            Change::In { member, since, nonce, run_id, address } => {
                if self.out_since(*member) != Some(*since) {
                    return None;
                }
                let member = after.members.get_mut(member.index())?;
                if member.is_elsewhere(address, None) {
                    return None;
                }
                member.admit(*nonce, run_id);
                member.meet_at(address);
                after.seat_newcomer(self.seats());
            }
            Change::Replace { member, incarnation, since, address } if !self.knows(address) => {
                let is_known = self.out_since(*member) == *since;
                let can_go = is_known && (since.is_some() || self.can_miss(*member));
                let since = after.version;
                let member = after.members.get_mut(member.index())?;
                if !can_go || member.incarnation != *incarnation {
                    return None;
                }
                // What was copied to the replaced instance says nothing about the new one.
                member.standing = Standing::Out { since };
                member.move_to(address, since);
            }
            Change::Join { id, address } => after.join(*id, address)?,
            Change::Vacate { member, incarnation } => after.vacate(*member, *incarnation)?,
            Change::Leave { member, incarnation } => after.leave(*member, *incarnation)?,
            Change::GiveUp { since } => after.give_up(*since)?,
            Change::Left { since } => after.close(*since)?,
            Change::Found(_)
            | Change::Founded
            | Change::Together { .. }
            | Change::Out { .. }
            | Change::Replace { .. }
            | Change::Restart { .. } => return None,
        }
        Some(after)
    }
}

impl Member {
    /// Returns a member that votes from the founding on.
    pub fn founder(id: u64, run_id: String, addresses: Vec<String>) -> Self {
        let standing = Standing::In { nonce: 0 };
        Self { id, incarnation: 1, run_id, addresses, standing, home: None, former: Vec::new() }
    }

    /// Whether the member votes.
    pub fn is_in(&self) -> bool {
        matches!(self.standing, Standing::In { .. })
    }

    /// Whether a master proves that it is this member of `cluster`, and in.
    fn is_proved(&self, cluster: &str, shown: &Presence) -> bool {
        let is_it = |it: &Identity| it.cluster == cluster && it.incarnation == self.incarnation;
        match self.standing {
            Standing::In { nonce } => {
                let is_admitted = nonce != 0 && shown.nonce == Some(nonce);
                is_admitted || shown.identity.as_ref().is_some_and(is_it)
            }
            Standing::Out { .. }
            | Standing::Joining { .. }
            | Standing::Vacant
            | Standing::Closed => false,
        }
    }

    pub(super) fn admit(&mut self, nonce: u64, run_id: &str) {
        self.standing = Standing::In { nonce };
        self.incarnation += 1;
        self.run_id = run_id.to_owned();
    }

    /// Whether the member was seen at this address, or is to be found there.
    pub fn is_at(&self, address: &str) -> bool {
        self.home.as_ref().is_some_and(|home| home.address == address)
            || self.addresses.iter().any(|it| it == address)
    }

    /// Whether the instance at this address was replaced, so that the member is now another one.
    ///
    /// `run_id` is that of the instance, if known. It identifies a member that is in, whatever the address.
    pub fn is_elsewhere(&self, address: &str, run_id: Option<&str>) -> bool {
        let is_it = self.is_in() && run_id == Some(&self.run_id);
        self.home.is_some() && !self.is_at(address) && !is_it
    }

    /// Returns where the member is found: its home, or the address at which it was seen last.
    pub fn address(&self) -> Option<&str> {
        let home = self.home.as_ref().map(|home| &*home.address);
        home.or(self.addresses.last().map(String::as_str))
    }

    /// Adds an address. Returns whether it was new.
    fn meet_at(&mut self, address: &str) -> bool {
        let is_new = !self.addresses.iter().any(|known| known == address);
        if is_new {
            push(&mut self.addresses, address.to_owned());
        }
        is_new
    }

    /// Whether the instance was never admitted: it has replaced another one, or is an additional one.
    pub fn is_new(&self) -> bool {
        let home_since = self.home.as_ref().map(|home| home.since);
        match self.standing {
            Standing::Joining { .. } => true,
            Standing::Out { since } => home_since == Some(since),
            Standing::In { .. } | Standing::Vacant | Standing::Closed => false,
        }
    }

    /// Whether quorums count the member's place.
    pub fn has_seat(&self) -> bool {
        !matches!(self.standing, Standing::Joining { .. } | Standing::Closed)
    }

    /// Whether there is an instance at the member's place.
    pub fn is_somebody(&self) -> bool {
        !matches!(self.standing, Standing::Vacant | Standing::Closed)
    }

    /// Forgets where the instance is found, but not that lists may still have it.
    pub(super) fn retire(&mut self) {
        for before in std::mem::take(&mut self.addresses) {
            push(&mut self.former, before);
        }
        self.home = None;
    }

    pub(super) fn move_to(&mut self, address: &str, since: u64) {
        self.retire();
        self.addresses.push(address.to_owned());
        self.home = Some(NewPlace { address: address.to_owned(), since });
    }
}

/// Adds an address, dropping the oldest if there are too many.
fn push(addresses: &mut Vec<String>, address: String) {
    addresses.push(address);
    let surplus = addresses.len().saturating_sub(MAX_ADDRESSES);
    addresses.drain(..surplus);
}

/// Maximum addresses remembered of each kind per member: a few proxies may each spell them differently.
const MAX_ADDRESSES: usize = 8;

/// A roster, as accepted.
pub type Accepted = StateOf<Change>;

impl Program for Change {
    type Value = Roster;
    /// Version of the changed roster; `None` if the change no longer applies and nothing was changed.
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

/// Identification of a master to a proxy that changes the roster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Presence {
    /// Identity in its mark, if it has that of a member.
    pub identity: Option<Identity>,
    /// Nonce in its provisional mark.
    pub nonce: Option<u64>,
    /// The server's own id.
    pub run_id: String,
}

/// Electorate of the roster, in the three situations in which it is changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Voters {
    /// The cluster is founded: its members.
    Members,
    /// Nothing is founded yet: the masters of the list, and those of a roster that is `founding` by their run ids.
    Founders,
    /// A quorum has forgotten, and enough time has passed: the members of the roster to begin with. The epoch outbids
    /// their promises from before they forgot.
    Anew(Box<Roster>),
}

impl RegisterElectorate<Roster> for Voters {
    type Credential = Presence;

    fn epoch(&self) -> u64 {
        match self {
            Self::Anew(roster) => roster.losses,
            Self::Members | Self::Founders => 0,
        }
    }

    fn quorum(&self, roster: &Roster) -> Option<Quorum> {
        (roster.seats() > 0).then(|| roster.quorum())
    }

    fn counts(&self, newest: &Roster, _: MasterId, shown: &Presence) -> bool {
        let is_founder = || newest.members.iter().any(|member| member.run_id == shown.run_id);
        match self {
            Self::Anew(roster) => roster.is_member(shown),
            Self::Founders if newest.version == 0 => true,
            Self::Founders if newest.stage == Stage::Founding => is_founder(),
            Self::Founders | Self::Members => newest.is_member(shown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roster(version: u64) -> Roster {
        let member = |id: u64| Member::founder(id, format!("run{id}"), vec![format!("a:{id}")]);
        let members = (0..3).map(member).collect();
        Roster {
            cluster: "c".to_owned(),
            version,
            stage: Stage::Founded,
            members,
            ..Roster::default()
        }
    }

    fn presence(run_id: &str, incarnation: Option<u64>) -> Presence {
        let run_id = run_id.to_owned();
        let identity = incarnation.map(|incarnation| Identity {
            cluster: "c".to_owned(),
            incarnation,
            run_id: run_id.clone(),
        });
        Presence { identity, nonce: None, run_id }
    }

    #[test]
    fn an_address_is_noted_once_and_raises_no_version() {
        let seen = |address: &str| Change::SeenAt {
            member: MasterId::new(1),
            address: address.to_owned(),
        };
        assert_eq!(seen("a:1").run(&roster(7)).1, None);
        let (after, version) = seen("b:1").run(&roster(7));
        assert_eq!((after.version, version), (7, Some(7)));
        assert_eq!(after.members[1].addresses, ["a:1", "b:1"]);
        let many = (0..20).fold(after, |roster, n| seen(&format!("x:{n}")).run(&roster).0);
        assert_eq!(many.members[1].addresses.len(), MAX_ADDRESSES);
        assert_eq!(many.members[1].addresses.last().map(String::as_str), Some("x:19"));
    }

    fn replace(roster: &Roster, member: usize, address: &str) -> Option<Roster> {
        let incarnation = roster.members[member].incarnation;
        let (member, address) = (MasterId::new(member), address.to_owned());
        let since = roster.out_since(member);
        let (after, version) = Change::Replace { member, incarnation, since, address }.run(roster);
        version.map(|_| after)
    }

    #[test]
    fn a_replaced_instance_is_out_and_its_addresses_are_those_of_the_new_one() {
        let after = replace(&roster(7), 2, "b:2").expect("replaced");
        let member = &after.members[2];
        assert_eq!((after.version, member.standing), (8, Standing::Out { since: 8 }));
        assert_eq!(
            (&member.addresses[..], &member.former[..]),
            (&["b:2".to_owned()][..], &["a:2".to_owned()][..])
        );
        assert!(member.is_elsewhere("a:2", Some("run2")), "the old process runs on");
        assert!(!member.is_elsewhere("b:2", None) && member.is_new());
        assert_eq!(replace(&after, 2, "b:2"), None, "it was replaced already");
        assert_eq!(replace(&after, 1, "b:1"), None, "one voter would remain");
        assert_eq!(replace(&roster(7), 2, "a:1"), None, "that is another member");
        let (member, address) = (MasterId::new(2), "d:2".to_owned());
        let late = Change::Replace { member, incarnation: 1, since: None, address };
        assert_eq!(late.run(&after).1, None, "somebody else was faster");
        let again = replace(&after, 2, "c:2").expect("the first choice was wrong");
        assert_eq!(again.members[2].former, ["a:2", "b:2"]);
    }

    #[test]
    fn only_the_new_instance_is_admitted() {
        let replaced = replace(&roster(7), 2, "b:2").expect("replaced");
        let admit = |since: u64, address: &str| {
            let (run_id, address) = ("new".to_owned(), address.to_owned());
            let member = MasterId::new(2);
            Change::In { member, since, nonce: 5, run_id, address }.run(&replaced)
        };
        assert_eq!(admit(7, "b:2").1, None, "it was copied to before");
        assert_eq!(admit(8, "a:2").1, None, "that one was replaced");
        let (after, version) = admit(8, "b:2");
        assert_eq!((version, after.members[2].incarnation), (Some(9), 2));
        assert!(!after.members[2].is_new());
        assert!(!after.members[2].is_elsewhere("localhost:2", Some("new")), "by another name");
        assert!(after.members[2].is_elsewhere("a:2", Some("run2")));
    }

    #[test]
    fn a_restart_needs_a_version_that_nobody_has_gone_beyond() {
        let restart = Change::Restart { known: 7, anew: Box::new(roster(9)) };
        assert_eq!(restart.run(&roster(7)).1, Some(9));
        assert_eq!(restart.run(&Roster::default()).1, Some(9));
        assert_eq!(restart.run(&roster(8)).1, None, "its members may remember");
        assert_eq!(restart.run(&roster(9)).1, None);
        let other = Roster { cluster: "d".to_owned(), ..roster(7) };
        assert_eq!(restart.run(&other).1, None);
    }

    #[test]
    fn a_member_that_was_admitted_votes_on_the_roster_before_it_has_its_mark() {
        let mut admitted = roster(3);
        admitted.members[2].admit(7, "run2");
        let rested = |nonce| Presence { nonce, ..presence("run2", None) };
        assert!(admitted.is_member(&rested(Some(7))));
        assert!(!admitted.is_member(&rested(Some(8))) && !admitted.is_member(&rested(None)));
        assert!(!admitted.is_member(&presence("run2", Some(1))), "it has forgotten since");
        assert!(!roster(3).is_member(&rested(Some(0))), "a founder was admitted by nobody");
    }

    #[test]
    fn members_vote_on_the_roster_in_whatever_order_a_proxy_has_them() {
        let counts = |voters: Voters, roster: &Roster, shown: &Presence| {
            voters.counts(roster, MasterId::new(0), shown)
        };
        let (last, new) = (presence("run2", Some(1)), presence("new", None));
        assert!(counts(Voters::Members, &roster(3), &last));
        assert!(!counts(Voters::Members, &roster(3), &presence("run2", Some(2))));
        let other = Roster { cluster: "d".to_owned(), ..roster(3) };
        assert!(!counts(Voters::Members, &other, &last), "its mark names another cluster");
        assert!(!counts(Voters::Members, &roster(3), &new));

        assert!(counts(Voters::Founders, &Roster::default(), &new));
        let anew = || Voters::Anew(Box::new(roster(4)));
        assert!(counts(anew(), &Roster::default(), &last), "by what it begins with");
        assert!(!counts(anew(), &Roster::default(), &new));
        assert!(!counts(Voters::Founders, &roster(3), &presence("run2", None)));
        let founding = Roster { stage: Stage::Founding, ..roster(1) };
        assert!(counts(Voters::Founders, &founding, &presence("run2", None)));
        assert!(!counts(Voters::Founders, &founding, &new));
    }
}
