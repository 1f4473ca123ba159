//! Replacing a member's instance by another one, as the operator orders it.
//!
//! The order only changes the roster. What follows is an admission, which any proxy carries out: see
//! [`admission`](crate::decision::roster::admission).

use std::rc::Rc;

use tokio::sync::oneshot;

use super::Keeper;
use super::tending::sources;
use crate::config::MasterAddr;
use crate::decision::quorum::MasterId;
use crate::decision::roster::admission::sources_needed;
use crate::decision::roster::mark::Mark;
use crate::decision::roster::roster::{Change, Roster, Voters};
use crate::masters::dial::{CONNECT_TIMEOUT, Dial};
use crate::masters::electorate::{FIRST_VERSION, MasterSight};
use crate::masters::probe::{ProbeReport, look_once};
use crate::masters::roster::orders::{MemberOrder, Obeyed, Replaced};
use crate::masters::roster::register::Changed;

impl<D: Dial + Clone> Keeper<D> {
    /// Carries out the next order whose new instance was probed, and has those of new orders probed meanwhile. Returns
    /// whether an order was carried out.
    pub(super) async fn obey(self: &Rc<Self>, sights: &[Option<MasterSight>]) -> bool {
        while let Some((MemberOrder::Replace { old, new }, done)) =
            self.errands.electorate.orders().next()
        {
            match self.newcomer(&old, &new) {
                Ok(address) => {
                    tokio::task::spawn_local(Rc::clone(self).probe_candidate(old, address, done));
                }
                Err(why) => _ = done.send(Err(why)),
            }
        }
        let Some(candidate) = self.next_candidate() else { return false };
        let Candidate { old, address, look, done } = candidate;
        let outcome = match look {
            Ok(look) => self.replace(sights, &old, &address, &look).await,
            Err(why) => Err(why),
        };
        let _ = done.send(outcome);
        true
    }

    /// Returns the next order whose giver still waits. The others will be given again, with another probe.
    fn next_candidate(&self) -> Option<Candidate> {
        let mut candidates = self.candidates.borrow_mut();
        std::iter::from_fn(|| candidates.pop_front()).find(|it| !it.done.is_closed())
    }

    /// Probes the instance that is to take a member's place. A silent one takes until the timeout, for which the keeper
    /// must not wait: it may be needed to admit another master.
    async fn probe_candidate(
        self: Rc<Self>,
        old: String,
        address: MasterAddr,
        done: oneshot::Sender<Obeyed>,
    ) {
        let looking = look_once(&self.errands.dial, &address);
        let look = match tokio::time::timeout(CONNECT_TIMEOUT, looking).await {
            Ok(Ok(look)) => Ok(look),
            Ok(Err(why)) => Err(format!("{address} cannot be used: {why}")),
            Err(_) => Err(format!("{address} cannot be used: it does not answer")),
        };
        self.candidates.borrow_mut().push_back(Candidate { old, address, look, done });
        self.errands.electorate.attend_to_roster();
    }

    /// Returns the full address of the instance that is to take the place of `old`.
    fn newcomer(&self, old: &str, new: &str) -> Result<MasterAddr, String> {
        if !self.errands.electorate.serves() {
            return Err("this proxy does not serve yet: ask one that does".to_owned());
        }
        let roster = self.roster.borrow();
        let master = self.master_at(self.place_of(&roster, old)?);
        let model = self.errands.electorate.address(master.unwrap_or(MasterId::new(0)));
        let address = model.at(new).map_err(|why| format!("{new} {why}"))?;
        require_unknown(&roster, &address)?;
        Ok(address)
    }

    /// Replaces a member. The roster may have changed since the order was given.
    async fn replace(
        &self,
        sights: &[Option<MasterSight>],
        old: &str,
        address: &MasterAddr,
        look: &ProbeReport,
    ) -> Obeyed {
        let roster = self.roster.borrow().clone();
        let place = self.place_of(&roster, old)?;
        let (member, name) = (&roster.members[place.index()], address.to_string());
        require_unknown(&roster, address)?;
        self.require_fit(sights, self.master_at(place), address, look)?;
        require_ours(&roster, address, look)?;
        self.require_sources(sights, &roster, place, old)?;
        let (incarnation, since) = (member.incarnation, roster.out_since(place));
        let change = Change::Replace { member: place, incarnation, since, address: name.clone() };
        match self.change(Voters::Members, change).await {
            Ok(Changed::To(version)) => {
                tracing::info!(version, "{old} is being replaced by {name}");
                let told =
                    format!("{old} is out, and {name} votes once everything is copied to it");
                Ok(Replaced { by: name, told })
            }
            Ok(Changed::Not) => Err(format!(
                "{old} cannot be replaced now: too few other members vote, or the members have just changed"
            )),
            Err(why) => Err(format!(
                "it is not known whether {old} was replaced ({why}): ask for the members again"
            )),
        }
    }

    /// Checks that everything can be copied from the other members. Otherwise nothing could be decided from then on.
    fn require_sources(
        &self,
        sights: &[Option<MasterSight>],
        roster: &Roster,
        place: MasterId,
        old: &str,
    ) -> Result<(), String> {
        let by_place = self.shown_by_place(roster, &self.shown(sights));
        let needed = sources_needed(self.errands.quorum);
        let left = sources(roster, &by_place, place, FIRST_VERSION).len();
        match left >= needed {
            true => Ok(()),
            false => Err(format!(
                "{old} cannot be replaced now: everything is copied from {needed} other members, and {left} can be read"
            )),
        }
    }

    /// Returns the place of the member at this address.
    fn place_of(&self, roster: &Roster, old: &str) -> Result<MasterId, String> {
        let places = || (0..roster.members.len()).map(MasterId::new);
        let is_here = |place: MasterId| {
            self.master_at(place).is_some_and(|master| self.address(master) == old)
        };
        let is_it = |place: &MasterId| is_here(*place) || roster.members[place.index()].is_at(old);
        places().find(is_it).ok_or_else(|| {
            let named = roster.members.iter().filter_map(|member| member.addresses.last());
            let members: Vec<_> = named.map(String::as_str).collect();
            format!("{old} is not a member: the members are {}", members.join(","))
        })
    }

    /// Checks that an instance can take a member's place beside the other members.
    fn require_fit(
        &self,
        sights: &[Option<MasterSight>],
        replaced: Option<MasterId>,
        address: &MasterAddr,
        look: &ProbeReport,
    ) -> Result<(), String> {
        if let Some(bar) = &look.facts.bar {
            return Err(format!("{address} cannot be used: {bar}"));
        }
        let others =
            sights.iter().enumerate().filter(|(at, _)| Some(MasterId::new(*at)) != replaced);
        let same = |sight: &Option<MasterSight>| {
            sight.as_ref().is_some_and(|sight| sight.facts.run_id == look.facts.run_id)
        };
        if let Some((at, _)) = others.clone().find(|(_, sight)| same(sight)) {
            let other = self.address(MasterId::new(at));
            return Err(format!("{address} is the same instance as {other}: give a new Redis"));
        }
        let databases = others.filter_map(|(_, sight)| Some(sight.as_ref()?.facts.databases)).min();
        if databases.is_some_and(|databases| look.facts.databases < databases) {
            return Err(format!(
                "{address} has fewer databases than the members: give it the same `databases`"
            ));
        }
        Ok(())
    }
}

/// An order whose new instance was probed.
pub(super) struct Candidate {
    old: String,
    address: MasterAddr,
    /// What the probe saw, or why the instance cannot be used.
    look: Result<ProbeReport, String>,
    done: oneshot::Sender<Obeyed>,
}

fn require_unknown(roster: &Roster, address: &MasterAddr) -> Result<(), String> {
    match roster.knows(&address.to_string()) {
        true => Err(format!("{address} is a member already: give the address of a new Redis")),
        false => Ok(()),
    }
}

/// Checks that an instance has nothing that would be missed, since everything in it will be deleted: it is empty, or has
/// been a member of this cluster.
fn require_ours(roster: &Roster, address: &MasterAddr, look: &ProbeReport) -> Result<(), String> {
    match look.marks.any() {
        Some(mark) if mark.cluster().is_some_and(|cluster| cluster != roster.cluster) => {
            let cluster = mark.cluster().unwrap_or_default();
            Err(format!(
                "{address} carries the mark of another cluster of masters ({cluster}): give an empty Redis"
            ))
        }
        Some(Mark { .. }) => Ok(()),
        None if look.keys > 0 => Err(format!(
            "{address} holds {} keys, which would be deleted: give an empty Redis",
            look.keys
        )),
        None => Ok(()),
    }
}
