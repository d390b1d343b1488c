//! The guide's pages are read in the repository and, as modules of `src/guide_pages.rs`, on docs.rs: their
//! links lead somewhere in both places.

use std::fs;
use std::path::Path;

pub fn the_guides_links_lead_somewhere_in_both_places() {
    let modules = fs::read_to_string("src/guide_pages.rs").unwrap();
    let mut pages = 0;
    for entry in fs::read_dir("docs/guide").unwrap() {
        let page = entry.unwrap().file_name().into_string().unwrap();
        let text = fs::read_to_string(Path::new("docs/guide").join(&page)).unwrap();
        pages += 1;
        let included = [format!("\"{page}\""), format!("\"../docs/guide/{page}\"")];
        assert!(included.iter().any(|it| modules.contains(it)), "{page} is no module");
        for line in prose(&text) {
            let is_inline = |rest: &&str| !rest.starts_with("http") && !rest.starts_with('#');
            let inline = line.split("](").skip(1).find(is_inline);
            assert!(inline.is_none(), "{page}: define it at the page's end, as [FILE]: FILE: {line}");
            let Some((label, place)) = definition(line) else { continue };
            assert_eq!(label, place, "{page}: the file's name is the label: {line}");
            assert!(leads_somewhere(place), "{page} leads nowhere: {line}");
            assert!(
                modules.contains(&format!("\"[{label}]: ")),
                "src/guide_pages.rs does not define [{label}] of {page}"
            );
        }
        let used = prose(&text).collect::<Vec<_>>().join("\n");
        let bracketed = used.split('[').filter_map(|rest| rest.split_once(']'));
        // A text is followed by its label at once.
        for (label, _) in bracketed.filter(|(_, rest)| !rest.is_empty()) {
            let is_file = label.contains(".md") || label.starts_with("../");
            let defined = prose(&text).filter_map(definition).any(|(it, _)| it == label);
            assert!(!is_file || label.contains('\n') || defined, "{page} does not say where [{label}] is");
        }
    }
    assert!(pages > 25, "{pages} pages");
}

/// The lines outside of code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// A link's label and where it leads.
fn definition(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix('[')?.split_once("]: ")
}

/// Whether the file is there, seen from the guide's folder, and has the heading.
fn leads_somewhere(place: &str) -> bool {
    let (file, heading) = place.split_once('#').unwrap_or((place, ""));
    let path = Path::new("docs/guide").join(file);
    if heading.is_empty() {
        return path.exists();
    }
    let text = fs::read_to_string(path).unwrap_or_default();
    prose(&text).filter_map(|line| line.strip_prefix('#')).any(|line| anchor(line) == heading)
}

/// A heading as the part of an address.
fn anchor(heading: &str) -> String {
    let words = heading.trim_start_matches('#').trim().to_lowercase();
    words
        .chars()
        .filter(|it| it.is_alphanumeric() || "-_ ".contains(*it))
        .collect::<String>()
        .replace(' ', "-")
}
