//! Published applications, unmodified, each with one address for locks and data. They run against a plain Redis, and
//! against the proxy with three masters and a data Redis.
//!
//! The programs are under `tests/applications`, one directory for each language. If a toolchain is missing, the test
//! fails with a message that says what to install. The results are in `docs/applications.md`, which `UPDATE_DOCS=1`
//! writes.
#![allow(clippy::disallowed_methods, reason = "black-box tests run on the real clock")]

mod application;
mod checks;
mod page;

/// Applications in `cargo test`: they need little, and end within seconds.
const QUICK: [(&str, &str); 3] =
    [("node", "ioredis"), ("node", "express"), ("node", "redisinsight")];

#[tokio::test]
async fn quick_applications_find_one_redis_behind_the_proxy() {
    let mut quick = Vec::new();
    for (language, id) in QUICK {
        let all = application::list(language).await;
        quick.extend(all.into_iter().filter(|application| application.id == id));
    }
    assert_eq!(quick.len(), QUICK.len(), "a quick application is gone");
    let outcomes = checks::both(quick).await;
    let missing: Vec<_> = outcomes.iter().map(page::row).filter(|row| !page::has(row)).collect();
    assert!(
        missing.is_empty() || page::is_written(),
        "docs/applications.md should say this: run `make applications-page`\n{}",
        missing.join("\n")
    );
}

#[tokio::test]
#[ignore = "needs the toolchains of all languages: run by make test-applications"]
async fn applications_of_all_languages_find_one_redis_behind_the_proxy() {
    let mut all = Vec::new();
    for language in application::languages() {
        all.extend(application::list(&language).await);
    }
    page::tells(&checks::both(all).await);
}

/// An application without a row was never tried, and a row without an application is left over from one that is gone.
#[tokio::test]
async fn the_page_of_applications_has_a_row_for_each() {
    let mut all = Vec::new();
    for language in application::languages() {
        all.extend(application::list(&language).await);
    }
    let expected: Vec<_> = all.iter().map(page::beginning).collect();
    let rows = page::beginnings();
    let hint = "run `make applications-page`";
    for beginning in &expected {
        assert!(rows.contains(beginning), "no row begins with {beginning}: {hint}");
    }
    for row in &rows {
        assert!(expected.contains(row), "no application is behind the row {row}: {hint}");
    }
}
