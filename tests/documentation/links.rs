//! Links between pages and to their headings.

use std::path::{Path, PathBuf};

use super::{files, read, root};

/// Returns each broken link together with the page that contains it.
pub(super) fn broken() -> Vec<String> {
    let pages = pages();
    let broken = |page: &PathBuf| {
        let text = std::fs::read_to_string(page).unwrap();
        let links = links(&text).into_iter().filter(|link| !leads_somewhere(page, link));
        links.map(|link| format!("{}: {link}", page.display())).collect::<Vec<_>>()
    };
    pages.iter().flat_map(broken).collect()
}

/// Returns the pages under `docs` that the README does not link to.
pub(super) fn unlisted() -> Vec<String> {
    let readme = read("README.md");
    let linked = links(&readme);
    let names = files(&root().join("docs"), "md")
        .into_iter()
        .map(|page| page.strip_prefix(root()).unwrap().display().to_string());
    names.filter(|name| !linked.contains(name)).collect()
}

fn pages() -> Vec<PathBuf> {
    let directories = ["docs", "benches", "tests/clients", "tests/applications"]
        .map(|place| files(&root().join(place), "md"));
    let others = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"].map(|page| root().join(page));
    directories.concat().into_iter().chain(others).collect()
}

fn links(text: &str) -> Vec<String> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://")).map(str::to_owned).collect()
}

fn leads_somewhere(page: &Path, link: &str) -> bool {
    let (file, anchor) = link.split_once('#').map_or((link, None), |(file, it)| (file, Some(it)));
    let target = match file {
        "" => page.to_owned(),
        _ => page.parent().unwrap().join(file),
    };
    target.exists() && anchor.is_none_or(|anchor| anchors(&target).iter().any(|it| it == anchor))
}

/// Returns the anchors of a page, named as GitHub names them.
pub(super) fn anchors(page: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(page).unwrap();
    // Text between ``` is never a heading, even if it begins with `#`.
    let prose = text.split("\n```").step_by(2);
    let headings = prose.flat_map(str::lines).filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#').trim())).collect()
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}
