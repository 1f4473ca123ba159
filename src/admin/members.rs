//! `/members`: the members of each cluster, and orders that change them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use hyper::StatusCode;
use serde::{Deserialize, Serialize};

use super::status;
use crate::client::failed_logins::Attempts;
use crate::client::registry::Peer;
use crate::config::MasterAddr;
use crate::context::shared::Shared;
use crate::decision::quorum::MasterId;
use crate::decision::roster::roster::Member;
use crate::decision::roster::seats::at_place;
use crate::masters::roster::orders::{ChangeMade, MemberOrder};
use crate::time::clock;

/// The members of one cluster, as this proxy knows them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MembersOf {
    /// Name of the shard, if there are several.
    pub shard: Option<String>,
    /// Id of the cluster.
    pub cluster: String,
    /// Version of the roster; 0 if this proxy does not know it yet.
    pub version: u64,
    /// How many members vote, and whether that is enough; empty in answers of older proxies.
    #[serde(default)]
    pub votes: String,
    /// The list of masters that leads to all members, as in `--masters`.
    pub list: String,
    /// The members, in the order of the roster.
    pub members: Vec<MemberShown>,
}

/// One member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberShown {
    /// Address at which this proxy reaches the member.
    pub address: String,
    /// Whether the roster lets the member vote.
    pub is_in: bool,
    /// Number of times that the member was admitted.
    pub incarnation: u64,
    /// State of the master, as in `INFO redlock`.
    pub state: String,
    /// Reason for that state; empty if the member votes.
    pub reason: String,
    /// Number of keys copied to the member since copying began, and their approximate total.
    pub copying: [u64; 2],
    /// Addresses of the instances that had its place before.
    pub replaced: Vec<String>,
}

/// Body of an order.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OrderBody {
    /// Address of the member to replace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replace: Option<String>,
    /// Address of the instance that replaces it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Address of the instance to add.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add: Option<String>,
    /// Address of the member to remove.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remove: Option<String>,
    /// User who gives the order; the default user if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Password of the user, if one is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
}

/// Returns the members of all clusters.
pub(super) fn all(shared: &Shared) -> Vec<MembersOf> {
    shared.clusters().map(of).collect()
}

fn of(cluster: &Shared) -> MembersOf {
    let (roster, seats) = cluster.electorate.followed();
    let list: Vec<_> =
        cluster.electorate.addresses().iter().map(|(_, it)| it.to_string()).collect();
    let show = |(at, member): (usize, &Member)| {
        shown(cluster, member, at_place(&seats, MasterId::new(at)))
    };
    MembersOf {
        shard: cluster.settings.shard_name().map(str::to_owned),
        members: roster
            .members
            .iter()
            .enumerate()
            .filter(|it| it.1.is_somebody())
            .map(show)
            .collect(),
        cluster: roster.cluster,
        version: roster.version,
        votes: status::outlook(cluster).text,
        list: list.join(","),
    }
}

fn shown(cluster: &Shared, member: &Member, master: Option<MasterId>) -> MemberShown {
    let electorate = &cluster.electorate;
    let home = member.home.as_ref().map(|home| &home.address);
    let known = home.or(member.addresses.last()).cloned().unwrap_or_default();
    let state = master.map_or("unknown", |master| status::state(cluster, master));
    let reason = match master {
        None => Some("no master of this proxy's list is this member".to_owned()),
        Some(master) => status::reason(cluster, master),
    };
    let copying = master.map(|master| electorate.progress(master));
    let address = master.map_or(known, |master| electorate.name(master));
    MemberShown {
        replaced: replaced(member, &address),
        address,
        is_in: member.is_in(),
        incarnation: member.incarnation,
        state: state.to_owned(),
        reason: reason.unwrap_or_default(),
        copying: copying.map_or([0, 0], |copying| copying.counts().into()),
    }
}

/// Returns the addresses of the other instances that had a member's place. An instance that has left, or was replaced, may
/// be back.
fn replaced(member: &Member, here: &str) -> Vec<String> {
    let is_other = |former: &&String| *former != here && !member.is_at(former);
    member.former.iter().filter(is_other).cloned().collect()
}

/// Carries out an order.
///
/// # Errors
/// Returns the status and one sentence about the reason if it was not carried out.
pub(super) async fn order(
    shared: &Shared,
    body: &[u8],
) -> Result<ChangeMade, (StatusCode, String)> {
    let wrong = |why: serde_json::Error| {
        (StatusCode::BAD_REQUEST, format!("the order is not understood ({why}): send {EXAMPLE}"))
    };
    let order: OrderBody = serde_json::from_slice(body).map_err(wrong)?;
    let is_data = |new: &String| shared.settings.data.as_ref().is_some_and(|data| data.is_at(new));
    let Some(change) = order.change() else {
        let why = format!("the order does not say what to do: send {EXAMPLE}");
        return Err((StatusCode::BAD_REQUEST, why));
    };
    if !may_order(shared, &order).await {
        let why =
            "only a user who may do everything can change the members: give a name and a password";
        return Err((StatusCode::FORBIDDEN, why.to_owned()));
    }
    if let Some(data) = change.new_address().map(|new| name_of(new.to_owned())).filter(is_data) {
        let why = format!("{data} is the data Redis, and locks are never data: give a new Redis");
        return Err((StatusCode::CONFLICT, why));
    }
    let old = change.old().unwrap_or_default();
    let knows = |cluster: &&Shared| {
        let is_it = |(_, address): &(MasterId, MasterAddr)| address.to_string() == old;
        let electorate = &cluster.electorate;
        electorate.addresses().iter().any(is_it) || electorate.roster().knows(old)
    };
    // A name that no cluster knows is reported by the first.
    let cluster = shared.clusters().find(knows).unwrap_or(shared);
    match cluster.electorate.order(change).await {
        Some(outcome) => outcome.map_err(|why| (StatusCode::CONFLICT, why)),
        None => {
            let why = "it is not known yet whether the members have changed: ask for them again";
            Err((StatusCode::GATEWAY_TIMEOUT, why.to_owned()))
        }
    }
}

impl OrderBody {
    /// Returns the change that is ordered, if it is exactly one.
    fn change(&self) -> Option<MemberOrder> {
        let Self { replace, by, add, remove, .. } = self;
        let name = |typed: &String| name_of(typed.clone());
        match (replace, by, add, remove) {
            (Some(old), Some(new), None, None) => {
                Some(MemberOrder::Replace { old: name(old), new: new.clone() })
            }
            (None, None, Some(new), None) => Some(MemberOrder::Add { new: new.clone() }),
            (None, None, None, Some(old)) => Some(MemberOrder::Remove { old: name(old) }),
            _ => None,
        }
    }
}

/// Returns the name that a roster has for an address: in lower case and with a port.
fn name_of(typed: String) -> String {
    typed.parse().map_or(typed, |address: MasterAddr| address.to_string())
}

/// An order, as shown to those who got it wrong.
const EXAMPLE: &str = r#"{"replace": "HOST:PORT", "by": "HOST:PORT"}, {"add": "HOST:PORT"} or {"remove": "HOST:PORT"}"#;

/// Whether the giver of an order is a user without restrictions. Wrong passwords count, and delay those that follow, like
/// those of clients on this host.
async fn may_order(shared: &Shared, order: &OrderBody) -> bool {
    let name = order.user.as_deref().unwrap_or("default");
    let password = order.password.as_deref().unwrap_or_default();
    let (guesses, mut attempts) = (shared.registry.guesses(), Attempts::default());
    if let Some(due) = attempts.due(guesses, &HERE, clock::now()) {
        tokio::time::sleep(due - clock::now()).await;
    }
    let live = shared.live();
    let user = live.users.authenticate(name.as_bytes(), password.as_bytes());
    if user.is_none() {
        attempts.failed(guesses, &HERE, clock::now());
    }
    user.is_some_and(|user| user.is_unrestricted())
}

/// The only host from which orders are taken.
const HERE: Peer = Peer::Tcp(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;
    use crate::context::shared::Certificates;

    fn shared(requirepass: Option<&str>) -> Shared {
        let mut settings = Settings::try_new(vec!["a:1".parse().unwrap()]).unwrap();
        settings.live.users = settings.live.users.with_requirepass(requirepass).into();
        Shared::new(settings, &Certificates::default())
    }

    #[test]
    fn a_member_is_found_by_any_spelling_of_its_address() {
        for (typed, name) in [
            ("LocalHost:7001", "localhost:7001"),
            ("a", "a:6379"),
            ("[::1]", "[::1]:6379"),
            ("a:port", "a:port"),
        ] {
            assert_eq!(name_of(typed.to_owned()), name);
        }
    }

    #[tokio::test]
    async fn an_order_needs_the_password_that_clients_need() {
        let give = async |password: &str| {
            let body = format!(r#"{{"replace": "a:1", "by": "b:1"{password}}}"#);
            order(&shared(Some("secret")), body.as_bytes()).await.unwrap_err().0
        };
        assert_eq!(give("").await, StatusCode::FORBIDDEN);
        assert_eq!(give(r#", "password": "guess""#).await, StatusCode::FORBIDDEN);
        assert_eq!(
            give(r#", "user": "nobody", "password": "secret""#).await,
            StatusCode::FORBIDDEN
        );
    }

    #[tokio::test]
    async fn an_order_that_is_not_understood_says_how_one_looks() {
        for body in
            ["", "replace a:1", r#"{"replace": "a:1"}"#, r#"{"replace": "a", "by": "b", "x": 1}"#]
        {
            let (status, why) = order(&shared(None), body.as_bytes()).await.unwrap_err();
            assert_eq!(status, StatusCode::BAD_REQUEST, "{body}");
            assert!(why.ends_with(EXAMPLE), "{why}");
        }
    }
}
