//! The work before a proxy serves: it founds the cluster, or recognizes an existing one.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::{FIRST_LOOKS, Keeper, PAUSE, Turn, distinct};
use crate::config::{ColdStart, MasterAddr};
use crate::decision::quorum::MasterId;
use crate::decision::roster::admission::Shown;
use crate::decision::roster::founding::{self, Task};
use crate::decision::roster::learning;
use crate::decision::roster::mark::Mark;
use crate::decision::roster::roster::{Change, Member, Roster, Stage, Standing, Voters};
use crate::decision::roster::seats::{Seats, at_place, missing, seats};
use crate::decision::roster::shards::Step;
use crate::masters::dial::Dial;
use crate::masters::electorate::{FIRST_VERSION, MasterSight};
use crate::masters::facts::Facts;
use crate::masters::roster::marks::Marks;
use crate::masters::roster::together::Hindered;
use crate::masters::roster::youth::trusted;
use crate::masters::side_connection::Failed;
use crate::operation::verdict::Obstacle;
use crate::time::clock;

impl<D: Dial + Clone> Keeper<D> {
    pub(super) async fn begin(
        self: &Rc<Self>,
        sights: &[Option<MasterSight>],
    ) -> Result<Turn, Failed> {
        if !self.has_looked(sights) {
            return Ok(Turn::Idle);
        }
        if let Some(why) = self.obstacle(sights) {
            return self.wait_for(Obstacle::lasting(why));
        }
        self.give_up_founding(sights);
        let known = self.roster.borrow().clone();
        if let Some(stranger) = self.stranger(sights, &known) {
            self.errands.electorate.refuse(stranger);
            return Ok(Turn::Idle);
        }
        match known.version {
            0 => self.found(sights).await,
            _ => self.join(sights, known).await,
        }
    }

    /// Abandons a founding that nobody can finish. What masters keep of it is cleared like other remains.
    fn give_up_founding(&self, sights: &[Option<MasterSight>]) {
        let known = &mut *self.roster.borrow_mut();
        let is_lost = founding::is_lost(known, &self.listed(self.shown_ever(sights)));
        if is_lost {
            let cluster = &known.cluster;
            tracing::info!(%cluster, "abandoning an unfinished founding: its masters were restarted in the meantime");
        }
        let held = self.listed(sights.iter().map(held).collect()).into_iter();
        if is_lost || founding::is_in_vain(known, held) {
            *known = Roster::default();
        }
    }

    /// Returns a condition that prevents any beginning.
    fn obstacle(&self, sights: &[Option<MasterSight>]) -> Option<String> {
        let seen = |is: fn(&MasterSight) -> bool| {
            sights.iter().position(|sight| sight.as_ref().is_some_and(is))
        };
        if let Some(at) = seen(|sight| sight.has_older) {
            return Some(format!(
                "a proxy of the previous version, which does not know marks, is connected to {}: stop all of \
                 that version first",
                self.address(MasterId::new(at))
            ));
        }
        for (at, sight) in sights.iter().enumerate() {
            let Some(sight) = sight else { continue };
            let is_same = |other: &&Option<MasterSight>| {
                other.as_ref().is_some_and(|other| other.facts.run_id == sight.facts.run_id)
            };
            if let Some(before) = sights[..at].iter().position(|other| is_same(&other)) {
                let names = [before, at].map(|at| self.address(MasterId::new(at)));
                return Some(format!(
                    "{} is the same instance as {}, which would then have two votes: name each \
                     master once",
                    names[1], names[0]
                ));
            }
        }
        self.errands.together.same_instance(self.errands.shard, sights)
    }

    /// Returns a sentence about a master of the list that belongs to a different cluster than the others, or than it
    /// should.
    fn stranger(&self, sights: &[Option<MasterSight>], known: &Roster) -> Option<String> {
        let clusters = clusters(sights);
        if known.version == 0 {
            // Without a roster, masters of a list that agree with each other may have lost it.
            return (clusters.len() > 1).then(|| self.of_several(&clusters));
        }
        let (cluster, masters) = clusters.iter().find(|(cluster, _)| **cluster != known.cluster)?;
        Some(self.of_others(cluster, masters))
    }

    /// Describes a list whose masters disagree. Nobody can say which of them are wrong.
    fn of_several(&self, clusters: &Clusters) -> String {
        let told = |(cluster, masters): (&String, &Vec<usize>)| {
            format!("{} to {cluster}", self.names(masters))
        };
        let told: Vec<_> = clusters.iter().map(told).collect();
        format!("the masters belong to different clusters, {}: correct the list", told.join(", "))
    }

    fn names(&self, masters: &[usize]) -> String {
        let names: Vec<_> = masters.iter().map(|at| self.address(MasterId::new(*at))).collect();
        names.join(" and ")
    }

    fn of_others(&self, cluster: &str, masters: &[usize]) -> String {
        format!(
            "{} carries the mark of another cluster of masters ({cluster}): correct the list, or delete \
             the keys redlock-proxy:mark and redlock-proxy:roster in all its databases if it is free to \
             be used",
            self.names(masters)
        )
    }

    /// Founds a cluster while none is known, once all masters of the list are there.
    async fn found(self: &Rc<Self>, sights: &[Option<MasterSight>]) -> Result<Turn, Failed> {
        if self.errands.electorate.terms().cold_start == ColdStart::Join {
            return self.wait_for(Obstacle::lasting(ONLY_JOINS.to_owned()));
        }
        let rests: Vec<_> = rests(sights).collect();
        if rests.is_empty() {
            self.waits_since.set(None);
        } else if !self.has_waited_for_rests() {
            return self.wait_for(Obstacle::passing(format!(
                "{} of {} masters carry marks, and no quorum knows the cluster they belong to: \
                 waiting until more are reachable, or --restart-wait has passed",
                rests.len(),
                self.addresses().iter().filter(|it| !it.is_empty()).count()
            )));
        }
        let unseen = self.unseen(sights);
        if !unseen.is_empty() {
            return self.wait_for(self.missing(&unseen));
        }
        // Remains on the masters of two shards would keep each from being founded because of the other.
        let matters = |it: &Hindered| rests.is_empty() || !it.may_clear;
        let hindered = self.errands.together.keeps_from_founding(self.errands.shard);
        if let Some(Hindered { obstacle, .. }) = hindered.filter(matters) {
            if self.started.elapsed() < FIRST_LOOKS {
                tokio::time::sleep(PAUSE).await;
                return Ok(Turn::Acted);
            }
            return self.wait_for(obstacle);
        }
        let founders: Vec<&MasterSight> = sights.iter().flatten().collect();
        match self.founders(&founders) {
            Ok(_) if !rests.is_empty() => self.clear().await,
            Ok(roster) => {
                self.change(Voters::Founders, Change::Found(Box::new(roster))).await?;
                Ok(Turn::Acted)
            }
            Err(obstacle) => self.wait_for(obstacle),
        }
    }

    /// Removes the remains of an unfinished founding, or of a cluster that a quorum has forgotten.
    async fn clear(&self) -> Result<Turn, Failed> {
        // Another proxy may have waited as long and be further along.
        self.look_again().await;
        let sights = self.errands.electorate.sights();
        let held = self.usable_rosters(&sights);
        if learning::newest(&held).is_some_and(|it| it.is_decided) {
            return Ok(Turn::Acted);
        }
        for (master, sight) in rests(&sights) {
            self.forget(master, sight).await?;
        }
        Ok(Turn::Acted)
    }

    fn has_waited_for_rests(&self) -> bool {
        let since = self.waits_since.get().unwrap_or_else(clock::now);
        self.waits_since.set(Some(since));
        since.elapsed() >= self.errands.electorate.terms().restart_wait
    }

    fn wait_for(&self, obstacle: Obstacle) -> Result<Turn, Failed> {
        self.errands.electorate.wait_for(obstacle);
        Ok(Turn::Idle)
    }

    fn missing(&self, unseen: &[usize]) -> Obstacle {
        let names: Vec<_> = unseen.iter().map(|at| self.address(MasterId::new(*at))).collect();
        Obstacle::lasting(format!(
            "all listed masters must be reachable on first use, and {} \
             cannot be reached",
            names.join(", ")
        ))
    }

    /// Returns the roster of a new cluster, or why there is none yet.
    fn founders(&self, sights: &[&MasterSight]) -> Result<Roster, Obstacle> {
        for (at, sight) in sights.iter().enumerate() {
            if let Some(bar) = &sight.facts.bar {
                let why = format!("{}: {bar}", self.address(MasterId::new(at)));
                return Err(Obstacle::lasting(why));
            }
        }
        let facts: Vec<&Facts> = sights.iter().map(|sight| &sight.facts).collect();
        let trusted = trusted(self.errands.electorate.terms(), &facts);
        let trusted = trusted.map_err(Obstacle::passing)?;
        if trusted.is_first_deployment {
            tracing::warn!(
                "the masters started recently, but vote at once because this looks like a first deployment (--cold-start trust)"
            );
        }
        let member = |(at, facts): (usize, &&Facts)| {
            let (run_id, address) = (facts.run_id.clone(), self.address(MasterId::new(at)));
            let member = Member::founder(fastrand::u64(1..), run_id, vec![address]);
            match trusted.masters.contains(MasterId::new(at)) {
                true => member,
                false => Member { standing: Standing::Out { since: FIRST_VERSION }, ..member },
            }
        };
        let members = facts.iter().enumerate().map(member).collect();
        let (cluster, stage) = (self.cluster.clone(), Stage::Founding);
        let shard = self.errands.together.part(self.errands.shard);
        let version = FIRST_VERSION;
        Ok(Roster { cluster, version, stage, members, shard, ..Roster::default() })
    }

    /// Finishes the founding of a known roster, or serves it.
    async fn join(
        self: &Rc<Self>,
        sights: &[Option<MasterSight>],
        known: Roster,
    ) -> Result<Turn, Failed> {
        let shown = self.shown_ever(sights);
        let found = seats(&known, &self.addresses(), &shown, &self.seats.borrow());
        *self.seats.borrow_mut() = found.clone();
        if self.move_on(&known, &shown) {
            return Ok(Turn::Acted);
        }
        let is_unknown =
            |(at, sight): (usize, &Option<MasterSight>)| sight.is_some() && found[at].is_none();
        let unknown = sights.iter().enumerate().position(is_unknown);
        // The other places have the members that the list lacks, which say nothing about the list.
        let listed = &sights[..self.named.len()];
        let is_marked = |sight: &Option<MasterSight>| {
            sight.as_ref().is_some_and(|sight| sight.marks.any().is_some())
        };
        let marked: Vec<usize> = (0..listed.len()).filter(|at| is_marked(&listed[*at])).collect();
        let is_all_seen = self.unseen(listed).is_empty();
        if unknown.is_some() && is_all_seen && marked.len() < known.quorum().needed() {
            self.errands.electorate.refuse(self.of_others(&known.cluster, &marked));
            return Ok(Turn::Idle);
        }
        // A master that cannot be reached may be a member by another name, but not one of a member that is known.
        let is_extra = |at: &usize| found[*at].is_none() && self.has_somebody(MasterId::new(*at));
        let extra = (0..found.len()).filter(is_extra).count();
        if unknown.is_some() || extra != missing(&known, &found).len() {
            return self.wait_for(self.other_list(&known, unknown));
        }
        let by_place = self.shown_by_place(&known, &shown);
        let ours = Roster { members: known.members.clone(), ..Roster::default() };
        match founding::next(&known, &ours, &by_place) {
            Task::Change(change) => {
                self.change(Voters::Founders, change).await?;
                Ok(Turn::Acted)
            }
            Task::Mark { .. } => self.mark_founders(sights, &known, &by_place).await,
            Task::WaitFor(places) => {
                let unseen: Vec<_> =
                    places.iter().filter_map(|place| at_place(&found, place)).collect();
                let unseen: Vec<_> = match unseen.is_empty() {
                    true => self.unseen(sights),
                    false => unseen.into_iter().map(MasterId::index).collect(),
                };
                self.wait_for(self.missing(&unseen))
            }
            Task::Refuse(_) => self.wait_for(self.other_list(&known, None)),
            Task::Serve if known.shard.is_some() && !self.is_decided(sights, &known) => {
                self.wait_for_decision(sights, &known, &by_place).await
            }
            Task::Serve => self.serve_together(sights, &found, &known, &by_place).await,
        }
    }

    /// Whether a quorum holds this roster. What fewer hold may be overtaken by a roster with another list of clusters.
    fn is_decided(&self, sights: &[Option<MasterSight>], known: &Roster) -> bool {
        let held = self.usable_rosters(sights);
        let newest = learning::newest(&held);
        newest.is_some_and(|newest| {
            let roster = &newest.state.value;
            newest.is_decided && (&roster.cluster, &roster.shard) == (&known.cluster, &known.shard)
        })
    }

    /// Returns why a cluster must not be served with this list.
    ///
    /// If the members that a list names have all been restarted empty, they look like new masters. That must not happen
    /// to fewer than a quorum of the members: the others go on.
    fn unfit_list(&self, known: &Roster, found: &Seats) -> Option<Obstacle> {
        let electorate = &self.errands.electorate;
        if let Some(obstacle) = electorate.lacks_room(known) {
            return Some(obstacle);
        }
        let has_seat =
            |place| known.member(place).is_some_and(|it| it.has_seat() && it.is_somebody());
        let is_named = |(master, address): &&(MasterId, MasterAddr)| {
            electorate.address(*master).as_ref() == Some(address)
                && found[master.index()].is_some_and(has_seat)
        };
        let (named, needed) = (self.named.iter().filter(is_named).count(), known.quorum().needed());
        let may_found = electorate.terms().cold_start != ColdStart::Join;
        (may_found && named < needed).then(|| {
            Obstacle::lasting(format!(
                "its list names {named} of the {} members, which would look like new masters if they restarted empty: name at least {needed} of {}, or start it with --cold-start join",
                known.size(),
                known.addresses()
            ))
        })
    }

    /// Waits until a quorum holds the roster of a shard. If a quorum has forgotten it, that takes a new beginning.
    async fn wait_for_decision(
        self: &Rc<Self>,
        sights: &[Option<MasterSight>],
        known: &Roster,
        by_place: &[Option<Shown>],
    ) -> Result<Turn, Failed> {
        if self.started.elapsed() >= FIRST_LOOKS {
            self.wait_for(Obstacle::lasting(self.errands.together.too_few(self.errands.shard)))?;
        }
        self.begin_anew(sights, known, by_place).await
    }

    /// Serves a founded cluster, once all shards belong together.
    async fn serve_together(
        self: &Rc<Self>,
        sights: &[Option<MasterSight>],
        found: &Seats,
        known: &Roster,
        by_place: &[Option<Shown>],
    ) -> Result<Turn, Failed> {
        if let Some(obstacle) = self.unfit_list(known, found) {
            return self.wait_for(obstacle);
        }
        let together = &self.errands.together;
        match together.step(self.errands.shard, known) {
            Step::Change(change) => match self.change(Voters::Members, change).await {
                // Its masters were restarted since it was founded.
                Err(Failed::NoQuorum) => self.wait_for_decision(sights, known, by_place).await,
                changed => changed.map(|_| Turn::Acted),
            },
            Step::WaitFor(_) if self.started.elapsed() < FIRST_LOOKS => Ok(Turn::Idle),
            Step::WaitFor(shard) => self.wait_for(Obstacle::lasting(together.wait(shard))),
            Step::Refuse(shard) => self.wait_for(Obstacle::lasting(together.mismatch(shard))),
            Step::Serve => {
                self.errands.electorate.follow(known, found);
                self.errands.electorate.serve();
                let (cluster, version) = (&known.cluster, known.version);
                let shard = known.shard.as_ref().map(|shard| &*shard.name);
                let quorum = known.quorum();
                let quorum = format!("{} of {}", quorum.needed(), quorum.masters());
                tracing::info!(shard, cluster, version, quorum, "the roster is known");
                Ok(Turn::Acted)
            }
        }
    }

    pub(super) fn addresses(&self) -> Vec<String> {
        self.places().map(|place| self.address(place)).collect()
    }

    fn other_list(&self, known: &Roster, unknown: Option<usize>) -> Obstacle {
        let who = match unknown {
            Some(at) => {
                format!("{} is not a member of their cluster", self.address(MasterId::new(at)))
            }
            None => format!("their cluster has {} members", known.size()),
        };
        Obstacle::lasting(format!(
            "other proxies use different masters: {who}; its members are {}: give all proxies the same list",
            known.addresses()
        ))
    }

    /// Gives marks to the voters that have none. Each must hold the roster first; otherwise nobody could tell a
    /// founding's leftover mark from the mark of another cluster. A master that has forgotten the roster since the
    /// probe may have forgotten locks too, because the cluster may be in service by now.
    async fn mark_founders(
        &self,
        sights: &[Option<MasterSight>],
        known: &Roster,
        by_place: &[Option<Shown>],
    ) -> Result<Turn, Failed> {
        for place in founding::unmarked(known, by_place).iter() {
            let Some(master) = self.master_at(place) else { continue };
            let holds_it = |sight: &&MasterSight| {
                sight.marks.roster().is_some_and(|state| state.value.cluster == known.cluster)
            };
            let sight = sights[master.index()].as_ref().filter(holds_it);
            let kind = Mark::expected(known, place, 0);
            if let (Some(sight), Some(mark)) = (sight, kind) {
                self.set_marks(master, sight, &sight.marks.found(&mark.kind)).await?;
            }
        }
        Ok(Turn::Acted)
    }
}

/// Why a proxy that only joins does not serve.
const ONLY_JOINS: &str = "no master of its list is known to be a member of a cluster, and with --cold-start join it founds none: name a member, or leave that out for the first start";

/// Masters of the list, by the cluster that their marks name.
pub(super) type Clusters = BTreeMap<String, Vec<usize>>;

pub(super) fn clusters(sights: &[Option<MasterSight>]) -> Clusters {
    let mut clusters = Clusters::new();
    for (at, sight) in sights.iter().enumerate() {
        let mark = sight.as_ref().and_then(|sight| sight.marks.any());
        if let Some(cluster) = mark.as_ref().and_then(Mark::cluster) {
            clusters.entry(cluster.to_owned()).or_default().push(at);
        }
    }
    clusters
}

/// Returns the cluster of the roster that a master holds, or an empty name if it holds none.
fn held(sight: &Option<MasterSight>) -> Option<&str> {
    let roster = sight.as_ref()?.marks.roster();
    Some(roster.map_or("", |state| &state.value.cluster))
}

/// Returns the masters that have remains of a cluster.
fn rests(sights: &[Option<MasterSight>]) -> impl Iterator<Item = (MasterId, &MasterSight)> {
    let is_rest = |marks: &Marks| marks.any().is_some() || marks.roster().is_some();
    distinct(sights).filter(move |(_, sight)| is_rest(&sight.marks))
}
