//! Replacing, adding and removing members, as the operator orders it.
//!
//! An order only changes the roster. What follows is an admission, which any proxy carries out: see
//! [`admission`](crate::decision::roster::admission).

use std::rc::Rc;

use tokio::sync::oneshot;

use super::tending::sources;
use super::{Keeper, Turn};
use crate::config::MasterAddr;
use crate::decision::quorum::outlook::NONE_TO_SPARE;
use crate::decision::quorum::{MasterId, MasterSet};
use crate::decision::register::Program as _;
use crate::decision::roster::mark::Mark;
use crate::decision::roster::roster::{Change, Member, Roster, Standing, Voters};
use crate::masters::dial::{CONNECT_TIMEOUT, Dial};
use crate::masters::electorate::{FIRST_VERSION, MasterSight};
use crate::masters::probe::{ProbeReport, look_once};
use crate::masters::roster::orders::{ChangeMade, MemberOrder, Obeyed};
use crate::masters::roster::register::Changed;

impl<D: Dial + Clone> Keeper<D> {
    /// Carries out the next order, and has the new instances of later ones probed meanwhile. Returns whether something
    /// was done.
    pub(super) async fn obey(self: &Rc<Self>) -> bool {
        if self.errands.electorate.orders().are_none() && self.candidates.borrow().is_empty() {
            return false;
        }
        let is_known = match self.is_roster_known().await {
            // Places and voters follow from the roster first.
            Ok(false) => return true,
            known => known.map(drop),
        };
        self.take_orders(&is_known);
        let Some(Candidate { order, new, done }) = self.next_candidate() else { return false };
        let _ = done.send(match is_known {
            Ok(()) => self.carry_out(order, new).await,
            Err(why) => Err(why),
        });
        true
    }

    /// Reads the roster from a quorum, since another proxy may have changed it just now. Returns whether it is the one
    /// that this proxy knew.
    async fn is_roster_known(&self) -> Result<bool, String> {
        // Reading brings the masters to agreement, which is not for a proxy whose list may be wrong.
        if !self.errands.electorate.serves() {
            return Err("this proxy does not serve yet: ask one that does".to_owned());
        }
        let voters = self.voters_of(&self.roster.borrow());
        match self.register(voters).settle().await {
            Ok(roster) => Ok(self.knows(&roster) == Turn::Idle),
            Err(why) => Err(format!("the members cannot be changed now: {why}")),
        }
    }

    /// Takes new orders, or refuses them. Those that bring a new instance wait for its probe.
    fn take_orders(self: &Rc<Self>, is_known: &Result<(), String>) {
        while let Some((order, done)) = self.errands.electorate.orders().next() {
            match is_known.clone().and_then(|()| self.newcomer(&order)) {
                Ok(Some(address)) => {
                    tokio::task::spawn_local(Rc::clone(self).probe_candidate(order, address, done));
                }
                Ok(None) => {
                    self.candidates.borrow_mut().push_back(Candidate { order, new: None, done });
                }
                Err(why) => _ = done.send(Err(why)),
            }
        }
    }

    /// Returns the next order whose giver still waits. The others will be given again, with another probe.
    fn next_candidate(&self) -> Option<Candidate> {
        let mut candidates = self.candidates.borrow_mut();
        std::iter::from_fn(|| candidates.pop_front()).find(|it| !it.done.is_closed())
    }

    async fn carry_out(&self, order: MemberOrder, new: Option<Newcomer>) -> Obeyed {
        // What the masters show follows a change of the roster.
        self.look_again().await;
        let sights = self.errands.electorate.sights();
        match (new, order.old()) {
            (Some(Newcomer { address, look }), Some(old)) => {
                self.replace(&sights, old, &address, &look?).await
            }
            (Some(Newcomer { address, look }), None) => self.add(&sights, &address, &look?).await,
            (None, old) => self.remove(&sights, old.unwrap_or_default()).await,
        }
    }

    /// Probes the instance that is to take a member's place. A silent one takes until the timeout, for which the keeper
    /// must not wait: it may be needed to admit another master.
    async fn probe_candidate(
        self: Rc<Self>,
        order: MemberOrder,
        address: MasterAddr,
        done: oneshot::Sender<Obeyed>,
    ) {
        let looking = look_once(&self.errands.dial, &address);
        let look = match tokio::time::timeout(CONNECT_TIMEOUT, looking).await {
            Ok(Ok(look)) => Ok(look),
            Ok(Err(why)) => Err(format!("{address} cannot be used: {why}")),
            Err(_) => Err(format!("{address} cannot be used: it does not answer")),
        };
        let new = Some(Newcomer { address, look });
        self.candidates.borrow_mut().push_back(Candidate { order, new, done });
        self.errands.electorate.attend_to_roster();
    }

    /// Returns the address of this master, or of any other: new instances are reached in the same way.
    fn model(&self, master: Option<MasterId>) -> Result<MasterAddr, String> {
        let electorate = &self.errands.electorate;
        let own = master.and_then(|master| electorate.address(master));
        let any = || electorate.addresses().into_iter().next().map(|(_, address)| address);
        own.or_else(any).ok_or_else(|| "no member is known".to_owned())
    }

    /// Returns the full address of the instance that an order brings, if any.
    fn newcomer(&self, order: &MemberOrder) -> Result<Option<MasterAddr>, String> {
        let roster = self.roster.borrow();
        let place = order.old().map(|old| self.place_of(&roster, old)).transpose()?;
        let Some(new) = order.new_address() else { return Ok(None) };
        let model = self.model(place.and_then(|place| self.master_at(place)))?;
        let address = model.at(new).map_err(|why| format!("{new} {why}"))?;
        require_unknown(&roster, &address)?;
        Ok(Some(address))
    }

    /// Adds a member. It counts once everything was copied to it.
    async fn add(
        &self,
        sights: &[Option<MasterSight>],
        address: &MasterAddr,
        look: &ProbeReport,
    ) -> Obeyed {
        let roster = self.roster.borrow().clone();
        let name = address.to_string();
        require_unknown(&roster, address)?;
        require_no_change(&roster)?;
        self.require_fit(sights, None, address, look)?;
        require_ours(&roster, address, look)?;
        self.require_room(&roster)?;
        match self
            .change(Voters::Members, Change::Join { id: fastrand::u64(1..), address: name.clone() })
            .await
        {
            Ok(Changed::To(version)) => {
                tracing::info!(version, "{name} is being added");
                let told = format!("{name} votes once everything is copied to it");
                Ok(ChangeMade { by: name, told, ..ChangeMade::default() })
            }
            Ok(Changed::Not) => {
                Err(format!("{name} cannot be added now: the members have just changed"))
            }
            Err(why) => Err(format!(
                "it is not known whether {name} was added ({why}): ask for the members again"
            )),
        }
    }

    /// Removes a member, or takes the addition of one back.
    async fn remove(&self, sights: &[Option<MasterSight>], old: &str) -> Obeyed {
        let roster = self.roster.borrow().clone();
        let place = self.place_of(&roster, old)?;
        let member = &roster.members[place.index()];
        let incarnation = member.incarnation;
        let change = match member.standing {
            Standing::Joining { since } => Change::GiveUp { since },
            _ => {
                require_no_change(&roster)?;
                require_many(&roster, old)?;
                match roster.vacancy() {
                    None => Change::Vacate { member: place, incarnation },
                    Some(_) => Change::Leave { member: place, incarnation },
                }
            }
        };
        let after = change.run(&roster).0;
        match self.change(Voters::Members, change).await {
            Ok(Changed::To(version)) => {
                tracing::info!(version, "{old} is being removed");
                let mut told = format!(
                    "{old} leaves once the others hold everything that it may be needed for"
                );
                if self.has_none_to_spare(sights, &after) {
                    told += &format!("; {NONE_TO_SPARE}");
                }
                Ok(ChangeMade { gone: old.to_owned(), told, ..ChangeMade::default() })
            }
            Ok(Changed::Not) => Err(format!(
                "{old} cannot be removed now: too few other members vote, or the members have just changed"
            )),
            Err(why) => Err(format!(
                "it is not known whether {old} was removed ({why}): ask for the members again"
            )),
        }
    }

    /// Checks that this proxy can connect to one more member, and to all that follow from it.
    fn require_room(&self, roster: &Roster) -> Result<(), String> {
        let seats = roster.size() + 1;
        let needed = if seats.is_multiple_of(2) { seats + 1 } else { seats };
        match self.errands.electorate.places() >= needed {
            true => Ok(()),
            false => Err(format!(
                "this proxy was started with too few masters to have {seats}: restart the proxies with the present list first"
            )),
        }
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
        let after = change.run(&roster).0;
        match self.change(Voters::Members, change).await {
            Ok(Changed::To(version)) => {
                tracing::info!(version, "{old} is being replaced by {name}");
                let mut told =
                    format!("{old} is out, and {name} votes once everything is copied to it");
                if self.has_none_to_spare(sights, &after) {
                    told += &format!("; until then {NONE_TO_SPARE}");
                }
                Ok(ChangeMade { by: name, told, ..ChangeMade::default() })
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
        let needed = roster.sources_needed(place);
        let left = sources(roster, &by_place, place, FIRST_VERSION).len();
        match left >= needed {
            true => Ok(()),
            false => Err(format!(
                "{old} cannot be replaced now: everything is copied from {needed} other members, and {left} can be read"
            )),
        }
    }

    /// Whether no member that votes by this roster, and was seen, can be missed.
    fn has_none_to_spare(&self, sights: &[Option<MasterSight>], roster: &Roster) -> bool {
        let is_seen = |place: &MasterId| {
            self.master_at(*place).is_some_and(|master| sights[master.index()].is_some())
        };
        let voters: MasterSet = roster.voters().iter().filter(is_seen).collect();
        roster.quorum().spare(voters) == Some(0)
    }

    /// Returns the place of the member at this address.
    fn place_of(&self, roster: &Roster, old: &str) -> Result<MasterId, String> {
        let places = || (0..roster.members.len()).map(MasterId::new);
        let is_here = |place: MasterId| {
            self.master_at(place).is_some_and(|master| self.address(master) == old)
        };
        let is_it = |place: &MasterId| is_here(*place) || roster.members[place.index()].is_at(old);
        places()
            .find(is_it)
            .ok_or_else(|| format!("{old} is not a member: the members are {}", roster.addresses()))
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

/// An order that can be carried out: its new instance, if any, was probed.
pub(super) struct Candidate {
    order: MemberOrder,
    new: Option<Newcomer>,
    done: oneshot::Sender<Obeyed>,
}

/// The instance that an order brings.
struct Newcomer {
    address: MasterAddr,
    /// What the probe saw, or why the instance cannot be used.
    look: Result<ProbeReport, String>,
}

/// Checks that members neither join nor leave.
fn require_no_change(roster: &Roster) -> Result<(), String> {
    let Some((place, _)) = roster.in_change() else { return Ok(()) };
    let address = roster.member(place).and_then(Member::address).unwrap_or_default();
    Err(match roster.leaving {
        Some(_) => format!("{address} is being removed: wait until it is gone"),
        None => format!("{address} is being added: wait until it votes, or remove it"),
    })
}

/// Checks that enough members remain.
fn require_many(roster: &Roster, old: &str) -> Result<(), String> {
    let size = roster.size();
    if size <= 3 {
        return Err(format!(
            "{old} cannot be removed from {size} members: have it replaced by another Redis instead"
        ));
    }
    // Founded with an even number.
    match roster.seats().is_multiple_of(2) {
        true => Err(format!("{old} cannot be removed from {size} seats: add a member first")),
        false => Ok(()),
    }
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
