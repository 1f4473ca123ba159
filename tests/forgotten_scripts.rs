//! Masters forget scripts: when they are restarted, or when somebody sends `SCRIPT FLUSH`. Clients do
//! not notice; a script is sent again with its text.

mod support;

use support::scripts::{EXTEND, RELEASE};
use support::{Masters, Proxy, Reply, target_is_plain_redis};

#[tokio::test]
async fn clients_do_not_notice_that_masters_have_forgotten_scripts() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut raw = proxy.raw().await;
    assert_eq!(raw.ask(&["SET", "lock", "mine", "NX", "PX", "600000"]).await, Reply::ok());
    assert_eq!(raw.ask(&["SET", "value", "1"]).await, Reply::ok());
    let steps: [(&[&str], Reply); 6] = [
        (&["EVAL", EXTEND, "1", "lock", "mine", "700000"], Reply::Int(1)),
        (&["EXISTS", "lock"], Reply::Int(1)),
        (&["EVAL", RELEASE, "1", "lock", "mine"], Reply::Int(1)),
        (&["GETSET", "value", "2"], Reply::bulk("1")),
        (&["SETNX", "for ever", "mine"], Reply::Int(1)),
        (&["DEL", "for ever"], Reply::Int(1)),
    ];
    for (request, reply) in steps {
        forget_scripts(&masters).await;
        assert_eq!(raw.ask(request).await, reply, "{request:?}");
    }
    masters.forget("lock").await;
    masters.forget("for ever").await;
    assert!(masters.holding("value", b"2").await >= masters.quorum());
}

async fn forget_scripts(masters: &Masters) {
    for master in masters.iter() {
        let mut connection = master.connection().await;
        redis::cmd("SCRIPT")
            .arg("FLUSH")
            .query_async::<()>(&mut connection)
            .await
            .expect("SCRIPT FLUSH on a master");
    }
}
