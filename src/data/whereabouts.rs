//! The address of the data Redis, according to its sentinels.
//!
//! One task learns it for all workers. A connection is opened in a [`Tenure`], which ends when another Redis becomes
//! the master. From then on nothing may be written over that connection.

use std::time::Duration;

use tokio::sync::watch;

use crate::config::MasterAddr;
use crate::time::clock::{self, Instant};

/// Current knowledge about the master, shared with all its users.
#[derive(Debug, Default)]
pub struct Whereabouts(watch::Sender<Known>);

/// A sentinel's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentinelTold {
    /// Address of the master.
    pub master: MasterAddr,
    /// Number of the fail-over that made it the master (`config-epoch`), if the sentinel sends it.
    pub epoch: Option<u64>,
}

/// Error for a sentinel that has not heard yet of a fail-over that another one has reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outdated;

/// Period in which one Redis is the master, from the first report of it to the first report of another.
pub struct Tenure {
    master: MasterAddr,
    term: u64,
    known: watch::Receiver<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// Number of the current tenure.
    term: u64,
    master: Option<MasterAddr>,
    /// The highest epoch reported, and when it was last reported.
    epoch: Option<(u64, Instant)>,
    /// Reason why the sentinels do not answer at present.
    silence: Option<String>,
}

/// Time for which a report of an earlier fail-over is rejected. Sentinels inform each other every 2 seconds
/// (`SENTINEL_PUBLISH_PERIOD`). A fail-over that they all forget is forgotten here, too.
const MEMORY: Duration = Duration::from_secs(30);

impl Whereabouts {
    /// Records a sentinel's answer. Returns whether it is news.
    ///
    /// # Errors
    /// Returns an error if another sentinel knew of a later fail-over.
    pub fn tell(&self, told: SentinelTold) -> Result<bool, Outdated> {
        let mut heard = Ok(false);
        self.0.send_if_modified(|known| {
            let had_silence = known.silence.is_some();
            heard = known.tell(told, clock::now());
            heard == Ok(true) || had_silence && heard.is_ok()
        });
        heard
    }

    /// Records that no sentinel answers, and why.
    pub fn keep_silent(&self, why: String) {
        self.0.send_modify(|known| known.silence = Some(why));
    }

    /// Returns why the sentinels do not answer at present.
    pub fn silence(&self) -> Option<String> {
        self.0.borrow().silence.clone()
    }

    /// Returns the master that they last named.
    pub fn master(&self) -> Option<MasterAddr> {
        self.0.borrow().master.clone()
    }

    /// Ends a tenure whose master has said that it is none.
    pub fn end(&self, tenure: &Tenure) {
        self.0.send_if_modified(|known| {
            let is_present = known.term == tenure.term;
            known.term += u64::from(is_present);
            is_present
        });
    }

    /// Returns the current tenure, as soon as sentinels were asked.
    ///
    /// # Errors
    /// Returns the reason why no sentinel answers. They may be on the other side of a partition, with another master.
    /// So no client must begin to write to the last one they named.
    pub async fn tenure(&self) -> Result<Tenure, String> {
        let mut receiver = self.0.subscribe();
        let is_asked = |known: &Known| known.master.is_some() || known.silence.is_some();
        // The sender lives as long as `self`.
        let _ = receiver.wait_for(is_asked).await;
        let (master, term) = {
            let known = receiver.borrow();
            match (&known.silence, &known.master) {
                (Some(why), _) => return Err(why.clone()),
                (None, Some(master)) => (master.clone(), known.term),
                (None, None) => return Err(NOBODY.to_owned()),
            }
        };
        Ok(Tenure { master, term, known: receiver })
    }
}

impl Tenure {
    /// Returns the address of the master.
    pub fn master(&self) -> &MasterAddr {
        &self.master
    }

    /// Resolves when the tenure is over.
    pub async fn ended(&mut self) {
        let term = self.term;
        // Once the sender is gone no other master can be reported: the process is ending.
        let _ = self.known.wait_for(|known| known.term != term).await;
    }
}

/// Resolves when a tenure is over. Without sentinels there is none, so this never resolves.
pub async fn ended(tenure: Option<&mut Tenure>) {
    match tenure {
        Some(tenure) => tenure.ended().await,
        None => std::future::pending().await,
    }
}

impl Known {
    fn tell(&mut self, told: SentinelTold, now: Instant) -> Result<bool, Outdated> {
        let is_news = self.master.as_ref() != Some(&told.master);
        if is_news && self.knows_better_than(&told, now) {
            return Err(Outdated);
        }
        self.silence = None;
        if let Some(epoch) = told.epoch
            && (is_news || self.epoch.is_none_or(|(newest, _)| epoch >= newest))
        {
            self.epoch = Some((epoch, now));
        }
        if is_news {
            self.term += 1;
            self.master = Some(told.master);
        }
        Ok(is_news)
    }

    fn knows_better_than(&self, told: &SentinelTold, now: Instant) -> bool {
        let Some(((newest, heard), epoch)) = self.epoch.zip(told.epoch) else { return false };
        epoch < newest && now.saturating_duration_since(heard) < MEMORY
    }
}

const NOBODY: &str = "no sentinel was asked yet";

#[cfg(test)]
mod tests {
    use super::*;

    fn told(master: &str, epoch: u64) -> SentinelTold {
        SentinelTold { master: master.parse().expect(master), epoch: Some(epoch) }
    }

    #[test]
    fn another_master_begins_another_term_and_the_same_one_does_not() {
        let (mut known, now) = (Known::default(), clock::now());
        assert_eq!((known.tell(told("a:1", 1), now), known.term), (Ok(true), 1));
        assert_eq!((known.tell(told("a:1", 1), now), known.term), (Ok(false), 1));
        assert_eq!((known.tell(told("b:1", 2), now), known.term), (Ok(true), 2));
        assert_eq!(known.master, Some("b:1".parse().expect("an address")));
    }

    #[test]
    fn a_sentinel_that_missed_a_failover_is_not_believed_for_a_while() {
        let (mut known, now) = (Known::default(), clock::now());
        assert_eq!(known.tell(told("b:1", 2), now), Ok(true));
        assert_eq!(known.tell(told("a:1", 1), now), Err(Outdated));
        assert_eq!(known.tell(told("b:1", 1), now), Ok(false), "it has heard, but for the number");
        let soon = now + MEMORY / 2;
        assert_eq!(known.tell(told("a:1", 1), soon), Err(Outdated));
        assert_eq!(known.term, 1);
        // As if all sentinels had been set up anew.
        assert_eq!(known.tell(told("a:1", 1), now + MEMORY), Ok(true));
        assert_eq!(known.tell(told("b:1", 2), now + MEMORY), Ok(true));
    }

    #[test]
    fn the_newest_number_is_remembered_from_when_it_was_told_last() {
        let (mut known, now) = (Known::default(), clock::now());
        let later = now + MEMORY * 2;
        assert_eq!(known.tell(told("b:1", 2), now), Ok(true));
        assert_eq!(known.tell(told("b:1", 2), later), Ok(false));
        assert_eq!(known.tell(told("a:1", 1), later), Err(Outdated));
        assert_eq!(known.tell(SentinelTold { epoch: None, ..told("a:1", 0) }, later), Ok(true));
    }

    #[tokio::test]
    async fn a_tenure_ends_when_another_is_told_of_or_when_its_master_says_so() {
        let whereabouts = Whereabouts::default();
        whereabouts.tell(told("a:1", 1)).expect("news");
        let mut first = whereabouts.tenure().await.expect("a master");
        whereabouts.tell(told("a:1", 1)).expect("the same");
        let is_over = async |tenure: &mut Tenure| {
            tokio::select! { biased; () = tenure.ended() => true, () = std::future::ready(()) => false }
        };
        assert!(!is_over(&mut first).await);
        whereabouts.tell(told("b:1", 2)).expect("news");
        assert!(is_over(&mut first).await);
        let mut second = whereabouts.tenure().await.expect("a master");
        assert_eq!(second.master().to_string(), "b:1");
        whereabouts.end(&first);
        assert!(!is_over(&mut second).await, "that was another tenure");
        whereabouts.end(&second);
        assert!(is_over(&mut second).await);
    }

    #[tokio::test]
    async fn while_no_sentinel_tells_no_tenure_begins_and_none_ends() {
        let whereabouts = Whereabouts::default();
        whereabouts.tell(told("a:1", 1)).expect("news");
        let mut tenure = whereabouts.tenure().await.expect("a master");
        whereabouts.keep_silent("all are away".to_owned());
        assert_eq!(whereabouts.tenure().await.err(), Some("all are away".to_owned()));
        assert_eq!(whereabouts.tell(told("a:1", 1)), Ok(false));
        assert!(whereabouts.tenure().await.is_ok());
        tokio::select! {
            biased;
            () = tenure.ended() => panic!("the master has not changed"),
            () = std::future::ready(()) => {}
        }
    }
}
