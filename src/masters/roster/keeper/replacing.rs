//! Replacing a member's instance by another one, as the operator orders it.
//!
//! The order only changes the roster. What follows is an admission, which any proxy carries out: see
//! [`admission`](crate::decision::roster::admission).

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
use crate::masters::roster::orders::{MemberOrder, Obeyed};
use crate::masters::roster::register::Changed;

impl<D: Dial + Clone> Keeper<D> {
    /// Carries out the operator's next order. Returns whether there was one.
    pub(super) async fn obey(&self, sights: &[Option<MasterSight>]) -> bool {
        let Some((order, done)) = self.errands.electorate.orders().next() else { return false };
        let MemberOrder::Replace { old, new } = order;
        let outcome = match self.errands.electorate.serves() {
            true => self.replace(sights, &old, &new).await,
            false => Err("this proxy does not serve yet: ask one that does".to_owned()),
        };
        let _ = done.send(outcome);
        true
    }

    async fn replace(&self, sights: &[Option<MasterSight>], old: &str, new: &str) -> Obeyed {
        let roster = self.roster.borrow().clone();
        let place = self.place_of(&roster, old)?;
        let (member, master) = (&roster.members[place.index()], self.master_at(place));
        let model = self.errands.electorate.address(master.unwrap_or(MasterId::new(0)));
        let address = model.at(new).map_err(|why| format!("{new} {why}"))?;
        let name = address.to_string();
        if roster.knows(&name) {
            return Err(format!("{name} is a member already: give the address of a new Redis"));
        }
        self.require_fit(sights, &roster, master, &address).await?;
        self.require_sources(sights, &roster, place, old)?;
        let (incarnation, since) = (member.incarnation, roster.out_since(place));
        let change = Change::Replace { member: place, incarnation, since, address: name.clone() };
        match self.change(Voters::Members, change).await {
            Ok(Changed::To(version)) => {
                tracing::info!(version, "{old} is being replaced by {name}");
                Ok(format!("{old} is out, and {name} votes once everything is copied to it"))
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

    /// Checks that an instance can take a member's place. Everything in it will be deleted.
    async fn require_fit(
        &self,
        sights: &[Option<MasterSight>],
        roster: &Roster,
        replaced: Option<MasterId>,
        address: &MasterAddr,
    ) -> Result<(), String> {
        let looking = look_once(&self.errands.dial, address);
        let look = match tokio::time::timeout(CONNECT_TIMEOUT, looking).await {
            Ok(Ok(look)) => look,
            Ok(Err(why)) => return Err(format!("{address} cannot be used: {why}")),
            Err(_) => return Err(format!("{address} cannot be used: it does not answer")),
        };
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
        require_ours(roster, address, &look)
    }
}

/// Checks that an instance has nothing that would be missed: it is empty, or has been a member of this cluster.
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
