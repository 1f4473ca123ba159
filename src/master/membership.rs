//! Two proxies with different lists of masters could each find a majority, and grant one lock twice. So each
//! announces its list on every master, and none serves while a list of other masters is announced.
//!
//! The announcement is the name of a connection (`CLIENT SETNAME`), with the list in it: it is there for as long
//! as the connection lives, and leaves nothing behind. It is made before anybody else's is looked for, so of two
//! proxies that start together at least one sees the other. No client can make one: each proxy answers
//! `CLIENT SETNAME` itself, and scripts may not call it.
//!
//! Lists that are spelled alike are the same. Others (tunnels, addresses behind a translation) may lead to the
//! same masters all the same: their `run_id`s tell, once both proxies know all of them. Until then it is unknown, and
//! who is not serving yet does not begin.

use std::collections::BTreeSet;

use redis::RedisResult;
use redis::aio::MultiplexedConnection;

use crate::config::MasterAddr;

/// What the connections that look after a master are called in its `CLIENT LIST`; the list follows.
const NAME: &str = "redlock-proxy-watch";

/// The list of masters, however it is ordered.
#[derive(Clone, Debug)]
pub struct Membership {
    masters: usize,
    /// Sorted, with nothing in it that a connection's name may not contain.
    list: String,
    /// Tells one proxy from another.
    process: String,
}

impl Membership {
    /// That of these masters.
    pub fn of(masters: &[MasterAddr]) -> Self {
        let name = |master: &MasterAddr| format!("{}:{}", master.host.to_lowercase(), master.port);
        let mut names: Vec<String> = masters.iter().map(name).collect();
        names.sort_unstable();
        let process = format!("{:016x}", fastrand::u64(..));
        Self { masters: masters.len(), list: graphic(&names.join(",")), process }
    }

    /// The masters, by their addresses.
    pub fn list(&self) -> &str {
        &self.list
    }

    /// The name that announces it; `run_ids` are those that are known.
    pub fn announcement(&self, run_ids: &BTreeSet<String>) -> String {
        let ids: Vec<&str> = run_ids.iter().map(String::as_str).collect();
        format!("{NAME}:{}|{}|{}", self.list, graphic(&ids.join(",")), self.process)
    }

    /// Whether none of these names is that of another proxy's connection.
    pub fn is_alone(&self, announced: &[String]) -> bool {
        announced.iter().all(|name| name.ends_with(&self.process))
    }

    /// What one of these names announces that is not, or perhaps not, a list of our masters; rather what
    /// certainly is not.
    pub fn rival(&self, run_ids: &BTreeSet<String>, announced: &[String]) -> Option<Rival> {
        let parts = |name: &String| {
            let (list, rest) = name.strip_prefix(NAME)?.strip_prefix(':')?.split_once('|')?;
            let ids = rest.split('|').next().unwrap_or_default();
            let ids = ids.split(',').filter(|id| !id.is_empty()).map(str::to_owned);
            Some((list.to_owned(), ids.collect::<BTreeSet<_>>()))
        };
        let rival = |(list, ids): (String, BTreeSet<String>)| {
            let is_same = list == self.list || ids.len() == self.masters && ids == *run_ids;
            let as_many = list.split(',').count() == self.masters;
            let is_certain = !as_many || run_ids.union(&ids).count() > self.masters;
            (!is_same).then_some(Rival { list, is_certain })
        };
        announced.iter().filter_map(parts).filter_map(rival).max_by_key(|rival| rival.is_certain)
    }
}

/// The list of masters of another proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rival {
    /// The masters, by their addresses.
    pub list: String,
    /// Whether they are certainly others than ours; else it is not known of all of them what runs there.
    pub is_certain: bool,
}

/// What is announced on one master, for as long as the connection lives.
#[derive(Debug, Default)]
pub(super) struct Announcement(Option<String>);

impl Announcement {
    /// Announces `name`, and only that.
    pub(super) async fn make(
        &mut self,
        connection: &mut MultiplexedConnection,
        name: String,
    ) -> RedisResult<()> {
        if self.0.as_ref() == Some(&name) {
            return Ok(());
        }
        let mut rename = redis::cmd("CLIENT");
        rename.arg("SETNAME").arg(&name).query_async::<()>(connection).await?;
        self.0 = Some(name);
        Ok(())
    }
}

/// All that is announced on one master.
pub(super) async fn announced(connection: &mut MultiplexedConnection) -> RedisResult<Vec<String>> {
    let list: String = redis::cmd("CLIENT").arg("LIST").query_async(connection).await?;
    Ok(names(&list).map(str::to_owned).collect())
}

/// The announcements in a `CLIENT LIST`. No field of it contains a space.
fn names(list: &str) -> impl Iterator<Item = &str> {
    let names = list
        .lines()
        .filter_map(|line| line.split(' ').find_map(|field| field.strip_prefix("name=")));
    names.filter(|name| name.starts_with(NAME))
}

/// The text as the name of a connection may have it (`validateClientName` in `networking.c`): the rest of its
/// bytes are spelled by their numbers.
fn graphic(text: &str) -> String {
    let spelled = |byte: u8| match byte.is_ascii_graphic() {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02x}"),
    };
    text.bytes().map(spelled).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn membership(masters: &[&str]) -> Membership {
        let parse = |text: &&str| text.parse().expect("an address");
        Membership::of(&masters.iter().map(parse).collect::<Vec<_>>())
    }

    fn ids(ids: &[&str]) -> BTreeSet<String> {
        ids.iter().map(|id| (*id).to_owned()).collect()
    }

    #[test]
    fn the_order_of_a_list_does_not_matter_and_passwords_are_not_told() {
        let one = membership(&["B:2", "redis://me:secret@a:1"]);
        assert_eq!(one.list(), membership(&["a:1", "b:2"]).list());
        assert_eq!(one.list(), "a:1,b:2");
    }

    #[test]
    fn a_proxy_tells_its_own_announcement_from_those_of_others() {
        let [one, other] = [(); 2].map(|()| membership(&["a:1", "b:1"]));
        let ours = [one.announcement(&ids(&["x"])), one.announcement(&ids(&["x", "y"]))];
        assert!(one.is_alone(&ours) && one.is_alone(&[]));
        assert!(!other.is_alone(&ours));
        assert!(!one.is_alone(&[ours[0].clone(), other.announcement(&ids(&["x"]))]));
    }

    #[test]
    fn other_masters_are_told_from_the_same_under_other_names() {
        let ours = membership(&["a:1", "b:1", "c:1"]);
        let rival = |list: &[&str], known: &[&str], theirs: &[&str]| {
            let name = membership(list).announcement(&ids(theirs));
            ours.rival(&ids(known), &[name]).map(|rival| rival.is_certain)
        };
        let (same, unknown, other) = (None, Some(false), Some(true));
        let same_names = ["c:1", "b:1", "a:1"];
        assert_eq!(rival(&same_names, &["x", "y", "z"], &["x", "y", "new"]), same, "a restart");
        let other_names = ["a:2", "b:2", "c:2"];
        assert_eq!(rival(&other_names, &["x", "y", "z"], &["x", "y", "z"]), same);
        assert_eq!(rival(&other_names, &["x", "y"], &["y", "z"]), unknown);
        assert_eq!(rival(&other_names, &["x", "y"], &["x", "y"]), unknown, "the third may differ");
        assert_eq!(rival(&other_names, &["x", "y", "z"], &["x", "y"]), unknown);
        assert_eq!(rival(&other_names, &["x", "y", "z"], &["x", "y", "other"]), other);
        assert_eq!(
            rival(&["a:1", "b:1"], &["x", "y", "z"], &["x", "y"]),
            other,
            "two are not three"
        );
        assert_eq!(rival(&["a:1", "b:1", "c:1", "d:1"], &[], &[]), other);
    }

    #[test]
    fn announcements_are_found_among_the_connections_of_a_master() {
        let list = "id=1 addr=1.1.1.1:1 name= user=default\nid=2 name=redlock-proxy-watch:a:1|x|1 db=0\n\
                    id=3 name=redlock-proxy db=0\nid=4 cmd=name=redlock-proxy-watch name=other\n";
        assert_eq!(names(list).collect::<Vec<_>>(), ["redlock-proxy-watch:a:1|x|1"]);
    }

    #[test]
    fn a_connection_may_have_any_list_as_its_name() {
        let name = membership(&["b\u{fc}cher:1", "[::1]:2"]).announcement(&ids(&["x y"]));
        assert!(name.bytes().all(|byte| byte.is_ascii_graphic()), "{name}");
        assert!(name.starts_with("redlock-proxy-watch:::1:2,b%c3%bccher:1|x%20y|"), "{name}");
    }

    #[test]
    fn what_is_certain_comes_first() {
        let ours = membership(&["a:1", "b:1", "c:1"]);
        let unknown = membership(&["a:2", "b:2", "c:2"]).announcement(&ids(&[]));
        let certain = membership(&["d:1"]).announcement(&ids(&[]));
        for announced in [[unknown.clone(), certain.clone()], [certain, unknown]] {
            let rival = ours.rival(&ids(&["x"]), &announced).expect("there are two");
            assert!(rival.is_certain);
        }
    }
}
