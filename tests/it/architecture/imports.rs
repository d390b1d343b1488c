//! Who names what of whom: the paths of a crate's files, followed to the files that define what they name.

use std::collections::{BTreeMap, BTreeSet};

use super::tokens::{Token, production};

/// A path by its parts, from the crate's root on where nothing else is said.
pub type Names = Vec<String>;

/// The files of a crate by their modules, and what they say of names.
#[derive(Default)]
pub struct Crate {
    /// The modules, with the place of the file that holds each.
    modules: BTreeMap<Names, usize>,
    /// What `use` brings into a module under which name: two things where features decide.
    uses: BTreeMap<Names, Vec<Names>>,
    /// The modules whose items a `use` with an asterisk brings into a module.
    globs: BTreeMap<Names, Vec<Names>>,
    items: BTreeSet<Names>,
    /// The modules that files declare without their text; some lie in another crate.
    declared: BTreeSet<Names>,
    /// The paths that each file names.
    named: Vec<Vec<Names>>,
}

impl Crate {
    /// Of files by their modules and their source. A file that passes a name on to others without using it
    /// does not import it: paths are followed through such a `pub use`.
    pub fn new(files: &[(Names, &str)]) -> Self {
        let read: Vec<Spoken> = files.iter().map(|(module, source)| Spoken::of(module, source)).collect();
        let mut found = Self::default();
        for (file, spoken) in read.iter().enumerate() {
            found.modules.extend(spoken.modules.iter().map(|module| (module.clone(), file)));
            found.items.extend(spoken.items.iter().cloned());
            found.declared.extend(spoken.declared.iter().cloned());
        }
        let uses = read.iter().flat_map(|spoken| &spoken.uses);
        let uses: Vec<_> = uses.map(|it| (it, found.absolute(&it.module, &it.path))).collect();
        for (Use { module, name, .. }, path) in uses {
            let Some(path) = path else { continue };
            match path.split_last() {
                Some((last, of)) if last == "*" => {
                    found.globs.entry(module.clone()).or_default().push(of.to_vec())
                }
                _ => found.uses.entry(below(module, name)).or_default().push(path),
            }
        }
        for spoken in &read {
            let is_used = |import: &&Use| !import.is_public || spoken.words.contains(&import.name);
            let imports = spoken.uses.iter().filter(is_used).map(|import| (&import.module, &import.path));
            let all = imports.chain(spoken.paths.iter().map(|(module, path)| (module, path)));
            found.named.push(all.filter_map(|(module, path)| found.absolute(module, path)).collect());
        }
        found
    }

    /// The paths within the crate that a file names.
    pub fn named(&self, file: usize) -> &[Names] {
        &self.named[file]
    }

    /// The other files that define what a file names.
    pub fn imported(&self, file: usize) -> BTreeSet<usize> {
        let mut files = BTreeSet::new();
        self.named[file].iter().for_each(|path| self.follow(path, &mut files));
        files.remove(&file);
        files
    }

    /// A path named in a module, from the root on; none if it leads out of the crate.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<Names> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some([module, rest].concat()),
            "super" => {
                let parent = &module[..module.len().checked_sub(1)?];
                let goes_on = rest.first().is_some_and(|it| it == "super");
                if goes_on { self.absolute(parent, rest) } else { Some([parent, rest].concat()) }
            }
            _ => {
                let inner = below(module, first);
                let is_known = self.modules.contains_key(&inner) || self.uses.contains_key(&inner);
                is_known.then(|| [&inner, rest].concat())
            }
        }
    }

    /// Adds the files that define what a path names. A module that is named alone defines nothing: the paths
    /// that begin with it say what is used of it.
    fn follow(&self, path: &[String], files: &mut BTreeSet<usize>) {
        let is_module = |length: &usize| self.modules.contains_key(&path[..*length]);
        let Some(length) = (0..=path.len()).rev().find(is_module) else { return };
        let (module, rest) = path.split_at(length);
        let Some((name, rest)) = rest.split_first() else { return };
        let defined = below(module, name);
        let is_here = self.items.contains(&defined);
        let globs = self.globs.get(module).into_iter().flatten().map(|glob| below(glob, name));
        let brought = globs.filter(|_| !is_here).find(|item| self.items.contains(item));
        if self.declared.contains(&defined) {
            // Its text lies elsewhere.
        } else if let Some(targets) = self.uses.get(&defined) {
            targets.iter().for_each(|target| self.follow(&[target, rest].concat(), files));
        } else if let Some(item) = brought {
            self.follow(&[&item, rest].concat(), files);
        } else {
            files.insert(self.modules[module]);
        }
    }
}

/// Files of which each imports the next and the last imports the first, if there are such.
pub fn circle(imported: &[BTreeSet<usize>]) -> Option<Vec<usize>> {
    // Leave out the files that import none of those left, until there is no such file.
    let mut left: BTreeSet<usize> = (0..imported.len()).collect();
    while let Some(end) = left.iter().copied().find(|file| imported[*file].is_disjoint(&left)) {
        left.remove(&end);
    }
    // Each file left imports another: following them leads back to one already met.
    let mut way = vec![*left.first()?];
    loop {
        let next = *imported[*way.last()?].intersection(&left).next()?;
        if let Some(first) = way.iter().position(|file| *file == next) {
            return Some(way.split_off(first));
        }
        way.push(next);
    }
}

fn below(module: &[String], name: &str) -> Names {
    [module, &[name.to_owned()]].concat()
}

/// A `use` of one name in a module: its path as it is written, and what it is called there.
struct Use {
    module: Names,
    name: String,
    path: Names,
    /// It has a visibility of its own.
    is_public: bool,
}

/// What one file says of names.
#[derive(Default)]
struct Spoken {
    /// Its own module, and those within it.
    modules: Vec<Names>,
    uses: Vec<Use>,
    /// Other paths of two names and more, as they are written in a module.
    paths: Vec<(Names, Names)>,
    items: Vec<Names>,
    declared: Vec<Names>,
    /// All its words but those of `use`.
    words: BTreeSet<String>,
}

impl Spoken {
    fn of(module: &[String], source: &str) -> Self {
        let mut found = Self { modules: vec![module.to_vec()], ..Self::default() };
        let (tokens, mut module) = (production(source), module.to_vec());
        let (mut rest, mut depth, mut inline, mut is_public) = (&tokens[..], 0, Vec::new(), false);
        while let [first, after @ ..] = rest {
            rest = after;
            let was_public = std::mem::take(&mut is_public);
            if let Token::Word(word) = first {
                found.words.insert((*word).to_owned());
            }
            match (first, after) {
                (Token::Mark("#"), [Token::Mark("["), ..]) => rest = behind_brackets(after),
                (Token::Word("pub"), _) => {
                    is_public = true;
                    rest = behind_scope(after);
                }
                (Token::Word("mod"), [Token::Word(name), Token::Mark("{"), ..]) => {
                    inline.push(depth);
                    module.push((*name).to_owned());
                    found.modules.push(module.clone());
                }
                (Token::Word("mod"), [Token::Word(name), Token::Mark(";"), ..]) => {
                    found.declared.push(below(&module, name));
                }
                (Token::Word("use"), [Token::Word(_) | Token::Mark("::" | "{"), ..]) => {
                    let mut branches = Vec::new();
                    read_branch(&[], &mut rest, &mut branches);
                    let import =
                        |(path, name)| Use { module: module.clone(), name, path, is_public: was_public };
                    found.uses.extend(branches.into_iter().map(import));
                }
                (Token::Word(kind), [Token::Word(name), ..]) if ITEMS.contains(kind) => {
                    found.items.push(below(&module, name));
                }
                // What follows a type's `>::` or a method's dot is no path.
                (Token::Mark("::" | "."), [Token::Word(_), after @ ..]) => rest = after,
                (Token::Word(name), [Token::Mark("::"), ..]) => {
                    let mut path = vec![(*name).to_owned()];
                    while let [Token::Mark("::"), Token::Word(name), after @ ..] = rest {
                        path.push((*name).to_owned());
                        rest = after;
                    }
                    found.paths.push((module.clone(), path));
                }
                (Token::Mark("{"), _) => depth += 1,
                (Token::Mark("}"), _) => {
                    depth -= 1;
                    if inline.pop_if(|it| *it == depth).is_some() {
                        module.pop();
                    }
                }
                _ => {}
            }
        }
        found
    }
}

/// The words before the name of an item.
const ITEMS: &[&str] = &["const", "enum", "fn", "static", "struct", "trait", "type", "union"];

/// Reads one branch of a `use`, `a::b::{c, d as e}`, and the comma, brace or semicolon behind it: its paths,
/// each with the name it has from then on. Whether another branch follows.
fn read_branch(start: &[String], rest: &mut &[Token<'_>], found: &mut Vec<(Names, String)>) -> bool {
    let (mut path, mut renamed) = (start.to_vec(), None);
    while let [first, after @ ..] = *rest {
        *rest = after;
        match (first, after) {
            (Token::Word("as"), [Token::Word(name), after @ ..]) => (renamed, *rest) = (Some(*name), after),
            (Token::Word(name) | Token::Mark(name @ "*"), _) => path.push((*name).to_owned()),
            (Token::Mark("{"), _) => {
                while read_branch(&path, rest, found) {}
                // Its branches have names, and it has none.
                path.clear();
            }
            (Token::Mark(end @ ("," | "}" | ";")), _) => {
                if path.len() > start.len() {
                    path.pop_if(|last| last == "self");
                    let name = renamed.or(path.last().map(String::as_str)).unwrap_or_default().to_owned();
                    found.push((path, name));
                }
                return *end == ",";
            }
            _ => {}
        }
    }
    false
}

/// The tokens behind the brackets that these begin with: an attribute's.
fn behind_brackets<'a>(tokens: &'a [Token<'a>]) -> &'a [Token<'a>] {
    let mut depth = 0;
    let closes = |it: &Token<'_>| {
        depth += i32::from(*it == Token::Mark("[")) - i32::from(*it == Token::Mark("]"));
        depth == 0
    };
    tokens.iter().position(closes).map_or(&[], |end| &tokens[end + 1..])
}

/// The tokens behind the scope of a visibility, which names no more than an ancestor.
fn behind_scope<'a>(tokens: &'a [Token<'a>]) -> &'a [Token<'a>] {
    let [Token::Mark("("), Token::Word("crate" | "in" | "self" | "super"), ..] = tokens else {
        return tokens;
    };
    tokens.iter().position(|it| *it == Token::Mark(")")).map_or(&[], |end| &tokens[end + 1..])
}

/// The modules of these files, and those that the file of the first imports.
fn imported(files: &[(&str, &str)]) -> Vec<String> {
    let module = |path: &str| path.split("::").filter(|it| !it.is_empty()).map(str::to_owned).collect();
    let files: Vec<(Names, &str)> = files.iter().map(|(path, source)| (module(path), *source)).collect();
    Crate::new(&files).imported(0).into_iter().map(|file| files[file].0.join("::")).collect()
}

pub fn paths_are_followed_to_the_files_that_define_them() {
    let others = [
        ("", "pub use a::x::Facade; mod a; mod b; mod c; #[path = \"../e.rs\"] mod e;"),
        ("a", "pub mod x; pub mod y; pub use x::{X, Renamed as New}; pub use y::*; pub struct Own;"),
        ("a::x", "pub struct X; pub struct Renamed; pub struct Facade; pub fn call() {}"),
        ("a::y", "pub struct Y; pub const LEAST: u8 = 1;"),
        ("b", "pub struct B; pub mod inner { pub struct Inner; }"),
        ("c::d", "pub struct D;"),
    ];
    let of = |source: &str| imported(&[&[("c", source)], &others[..]].concat());
    let cases: &[(&str, &[&str])] = &[
        ("use crate::a::X;", &["a::x"]),
        (
            "use crate::{\n    a::{\n        Own, x,\n        y::{self, Y as Why},\n    },\n    b::B,\n};",
            &["a", "a::y", "b"],
        ),
        ("use crate::a::{x, y}; fn f() { x::call(); }", &["a::x"]),
        ("use super::a::New;", &["a::x"]),
        ("use super::a::*;", &["a"]),
        ("use crate::a::LEAST;", &["a::y"]),
        ("use crate::Facade as F;", &["a::x"]),
        ("fn f() -> impl Fn() + use<> { super::b::inner::Inner }", &["b"]),
        ("mod d; fn f(it: d::D) { self::d::D; 0..crate::a::LEAST; }", &["a::y", "c::d"]),
        ("mod e { use super::super::b::B; use super::f; }", &["b"]),
        ("macro_rules! m { () => { $crate::a::x::call() } }", &["a::x"]),
        ("pub(in crate::a) struct C; #[doc = crate::b::B] struct E; use std::a::X; x.a::<Y>();", &[]),
        ("use crate::e::E;", &[]),
        ("pub(crate) use crate::a::{X, y::Y};", &[]),
        ("pub use crate::a::{X, y::Y}; fn f(it: X) {}", &["a::x"]),
        ("// use crate::b::B;\nconst TEXT: &str = \"use crate::b::B;\";", &[]),
    ];
    for (source, files) in cases {
        assert_eq!(of(source), *files, "{source}");
    }
}

pub fn circles_are_found() {
    let found = |imported: &[&[usize]]| {
        circle(&imported.iter().map(|files| files.iter().copied().collect()).collect::<Vec<_>>())
    };
    assert_eq!(found(&[&[1, 2], &[2], &[]]), None);
    assert_eq!(found(&[&[1], &[2], &[3], &[1], &[0]]), Some(vec![1, 2, 3]));
}
