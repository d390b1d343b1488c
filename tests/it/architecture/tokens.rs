//! Rust source, cut into words, strings and marks.

/// A piece of source. Comments, spaces, characters and lifetimes are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token<'a> {
    /// A name, a keyword or a number.
    Word(&'a str),
    /// The source between the quotes of a string.
    Text(&'a str),
    /// `::`, `..`, or one character.
    Mark(&'a str),
}

pub fn tokens(source: &str) -> Vec<Token<'_>> {
    let (mut found, mut rest) = (Vec::new(), source);
    while !rest.is_empty() {
        let (token, length) = first(rest);
        found.extend(token);
        rest = &rest[length..];
    }
    found
}

/// The tokens of a source, but for the items that only tests have: those behind `#[cfg(test)]`.
pub fn production(source: &str) -> Vec<Token<'_>> {
    use Token::{Mark, Word};
    let only_tests = [Mark("#"), Mark("["), Word("cfg"), Mark("("), Word("test"), Mark(")"), Mark("]")];
    let (tokens, mut found) = (tokens(source), Vec::new());
    let mut rest = &tokens[..];
    while let Some((first, after)) = rest.split_first() {
        rest = match rest.strip_prefix(&only_tests) {
            Some(item) => behind_item(item),
            None => {
                found.push(*first);
                after
            }
        };
    }
    found
}

/// The tokens behind the item, field or statement that these begin with.
fn behind_item<'a, 'b>(tokens: &'b [Token<'a>]) -> &'b [Token<'a>] {
    let mut depth = 0;
    for (place, token) in tokens.iter().enumerate() {
        match token {
            Token::Mark("(" | "[" | "{") => depth += 1,
            // It was the last of those in a block.
            Token::Mark("}") if depth == 0 => return &tokens[place..],
            Token::Mark(")" | "]" | "}") => depth -= 1,
            _ => {}
        }
        if depth == 0 && matches!(token, Token::Mark("}" | ";" | ",")) {
            let behind = &tokens[place + 1..];
            return behind.strip_prefix(&[Token::Mark(";")]).unwrap_or(behind);
        }
    }
    &[]
}

/// The token that a source begins with, if it is one, and its length.
fn first(source: &str) -> (Option<Token<'_>>, usize) {
    let to = |end: Option<usize>| end.unwrap_or(source.len());
    let word = to(source.find(|it: char| !it.is_alphanumeric() && it != '_'));
    if let Some((inner, length)) = string(source) {
        (Some(Token::Text(inner)), length)
    } else if source.starts_with("//") {
        (None, to(source.find('\n')))
    } else if source.starts_with("/*") {
        (None, to(source.find("*/").map(|end| end + 2)))
    } else if let Some(inner) = source.strip_prefix('\'') {
        (None, 1 + after_quote(inner))
    } else if word > 0 {
        (Some(Token::Word(&source[..word])), word)
    } else if source.starts_with("::") || source.starts_with("..") {
        (Some(Token::Mark(&source[..2])), 2)
    } else {
        let length = source.chars().next().map_or(1, char::len_utf8);
        let mark = Some(&source[..length]).filter(|mark| !mark.trim().is_empty());
        (mark.map(Token::Mark), length)
    }
}

/// The string that a source begins with: what stands between its quotes, and its whole length.
fn string(source: &str) -> Option<(&str, usize)> {
    let quoted = source.trim_start_matches(['b', 'c', 'r']).trim_start_matches('#');
    let prefix = &source[..source.len() - quoted.len()];
    let inner = quoted.strip_prefix('"')?;
    let hashes = prefix.matches('#').count();
    let length = if prefix.contains('r') {
        inner.find(&format!("\"{}", "#".repeat(hashes)))?
    } else {
        closing(inner, '"')?
    };
    Some((&inner[..length], prefix.len() + length + 2 + hashes))
}

/// Where the next such quote is that no backslash escapes.
fn closing(inner: &str, quote: char) -> Option<usize> {
    let mut is_escaped = false;
    inner.find(|it: char| {
        let closes = it == quote && !is_escaped;
        is_escaped = it == '\\' && !is_escaped;
        closes
    })
}

/// The length of what follows a single quote: the rest of a character, or a lifetime's name.
fn after_quote(inner: &str) -> usize {
    if inner.starts_with('\\') || inner.chars().nth(1) == Some('\'') {
        closing(inner, '\'').map_or(inner.len(), |end| end + 1)
    } else {
        inner.find(|it: char| !it.is_alphanumeric() && it != '_').unwrap_or(inner.len())
    }
}

pub fn strings_and_comments_are_no_words() {
    use Token::{Mark, Text, Word};
    let found =
        tokens("a::b('\\'', '\"', &'a c) // d \"e\n r#\"f \"g\" \\\"# \"h \\\" // i\" /* j */ b\"k\"");
    let names = [Word("a"), Mark("::"), Word("b"), Mark("("), Mark(","), Mark(","), Mark("&"), Word("c")];
    let rest = [Mark(")"), Text("f \"g\" \\"), Text("h \\\" // i"), Text("k")];
    assert_eq!(found, [&names[..], &rest].concat());
}

pub fn items_of_tests_are_left_out() {
    let cases = [
        ("a; #[cfg(test)] fn f(a: A) -> [u8; 2] { { g(); } } b", "a; b"),
        ("a; #[cfg(test)] #[x] mod tests { fn f() {} } #[cfg(test)] mod c; b", "a; b"),
        ("a; #[cfg(test)] use c::{d, e}; b", "a; b"),
        ("A { a: B, #[cfg(test)] c: D(E, F), g: H, #[cfg(test)] i: J } b", "A { a: B, g: H, } b"),
        ("#[cfg(any(test, feature = \"a\"))] fn f() {}", "#[cfg(any(test, feature = \"a\"))] fn f() {}"),
    ];
    for (source, left) in cases {
        assert_eq!(production(source), tokens(left), "{source}");
    }
}
