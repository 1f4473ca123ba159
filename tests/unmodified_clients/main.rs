//! Client libraries, exactly as their registries publish them, take locks through the proxy: with every master up, and
//! with one killed while they hold a lock. No two of them ever hold the same key.
//!
//! The programs that call the libraries are under `tests/clients`, one directory for each language. If a toolchain is
//! missing, the test fails with a message that says what to install, since a silently skipped suite proves nothing. The
//! results are in the table in `docs/clients.md`, which `UPDATE_DOCS=1` writes.
#![allow(clippy::disallowed_methods, reason = "black-box tests run on the real clock")]

mod checks;
mod client;
mod cross;
mod table;

#[path = "../support/mod.rs"]
mod support;

/// Languages whose toolchains `cargo test` requires.
const USUAL: [&str; 3] = ["node", "python", "rust"];

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn node_clients_hold_their_locks() {
    checks::languages(&["node".to_owned()]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn python_clients_hold_their_locks() {
    checks::languages(&["python".to_owned()]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn rust_clients_hold_their_locks() {
    checks::languages(&["rust".to_owned()]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs the toolchains of all languages: run by make test-clients"]
async fn clients_of_all_other_languages_hold_their_locks() {
    let mut others = client::languages();
    others.retain(|language| !USUAL.contains(&language.as_str()));
    checks::languages(&others).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_client_takes_what_another_holds() {
    cross::refused_by_each_other(&USUAL.map(str::to_owned)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs the toolchains of all languages: run by make test-clients"]
async fn no_client_of_any_language_takes_what_another_holds() {
    cross::refused_by_each_other(&client::languages()).await;
}

/// A language without a section has been forgotten, and a section without a language is left over from one that is
/// gone.
#[test]
fn the_page_of_clients_has_a_section_for_each_language() {
    let titles: Vec<_> = client::languages().iter().map(|it| table::title(it)).collect();
    let sections = table::sections();
    for title in &titles {
        assert!(sections.contains_key(*title), "{title} is missing: run `make clients-page`");
    }
    for title in sections.keys() {
        assert!(titles.contains(&title.as_str()), "{title} is gone: run `make clients-page`");
    }
}
