//! Effects of probes on the electorate.

use super::*;
use crate::masters::roster::marks::Marks;

const PROVISIONAL: &str = "? 7 0;0 0";

fn electorate() -> Electorate {
    let terms = ElectorateTerms {
        quorum: Quorum::of(3),
        restart_wait: Duration::ZERO,
        cold_start: ColdStart::Trust,
        are_new: false,
    };
    let address = |port| format!("nowhere:{port}").parse().expect("an address");
    Electorate::new(terms, 0.01, (1..=3).map(address).collect(), 3)
}

/// Records a probe of a master that shows `mark` and whose clock is `seconds` ahead.
fn look_at(electorate: &Electorate, master: MasterId, mark: &str, seconds: i64) {
    let asked = clock::now();
    let unix_micros = electorate.unix_time().elapsed_us(asked) + seconds * 1_000_000;
    let reading = ClockReading { asked, answered: clock::now(), unix_micros };
    let sight = MasterSight {
        marks: Marks::showing(&[mark]),
        facts: Facts::for_tests(),
        has_older: false,
        note: None,
    };
    electorate.looked_at(master, sight, Some(reading));
}

#[test]
fn a_master_whose_clock_is_set_while_it_is_copied_to_is_doubted_until_its_mark_is_gone() {
    let electorate = electorate();
    let [one, set, three] = [0, 1, 2].map(MasterId::new);
    for master in [one, set, three] {
        look_at(&electorate, master, PROVISIONAL, 1_000);
    }
    for (master, seconds) in [(one, 1_000), (three, 1_000), (set, 1_012)] {
        assert!(!electorate.is_doubted(set));
        look_at(&electorate, master, PROVISIONAL, seconds);
    }
    look_at(&electorate, one, PROVISIONAL, 1_000);
    look_at(&electorate, three, PROVISIONAL, 1_000);
    assert!(electorate.is_doubted(set), "the others were read since");
    look_at(&electorate, set, PROVISIONAL, 1_012);
    assert!(electorate.is_doubted(set), "the copy that goes on ends keys by two clocks");
    look_at(&electorate, set, "", 1_012);
    assert!(!electorate.is_doubted(set));
}

#[test]
fn a_vacant_seat_counts_like_a_master_that_is_down() {
    use crate::decision::register::Program as _;
    use crate::decision::roster::roster::{Change, Member, Roster, Stage};
    let member = |id: u64| Member::founder(id, format!("run{id}"), vec![format!("a:{id}")]);
    let five = Roster {
        cluster: "c".to_owned(),
        version: 7,
        stage: Stage::Founded,
        members: (0..5).map(member).collect(),
        ..Roster::default()
    };
    let vacate = Change::Vacate { member: MasterId::new(1), incarnation: 1 };
    let (four, _) = vacate.run(&five);
    let terms = ElectorateTerms { quorum: Quorum::of(5), ..*electorate().terms() };
    let address = |port| format!("nowhere:{port}").parse().expect("an address");
    let electorate = Electorate::new(terms, 0.01, (1..=5).map(address).collect(), 7);
    electorate.serve();
    let seats = [Some(0), None, Some(2), Some(3), Some(4), None, None];
    electorate.follow(&four, &seats.map(|place| place.map(MasterId::new)).to_vec());
    assert_eq!((electorate.quorum().masters(), electorate.quorum().needed()), (5, 3));
}
