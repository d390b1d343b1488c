//! Every UPDATE and DELETE of the store's production code, with its guard.
//!
//! A guarded change belongs to the table of changes (`store/rules.rs`), whose interpreter writes its UPDATE.
//! Every other place that begins one, in a string or by the functions `update` and `delete`, is listed here.

use super::tokens::{Token, production};

/// A place that begins an UPDATE or a DELETE. Source is written without spaces but between words and in
/// strings.
struct Listed {
    /// How the file's path ends.
    file: &'static str,
    begins: &'static str,
    /// A piece of the same function: a statement may be put together in many steps.
    guard: &'static str,
    /// Why that is enough.
    reason: &'static str,
}

const fn listed(
    file: &'static str,
    begins: &'static str,
    guard: &'static str,
    reason: &'static str,
) -> Listed {
    Listed { file, begins, guard, reason }
}

#[rustfmt::skip]
const LISTED: &[Listed] = &[
    listed("/change.rs", "update(dialect,(table,alias),&sets,want", "&condition(dialect,rule,rows)",
        "the interpreter of the table of changes"),
    listed("/batch.rs", "update(table,sets,condition)", "condition:&str",
        "the function itself: its callers bring the guard"),
    listed("dialect/mod.rs", "UPDATE {table} AS {alias} SET {} FROM\"", "WHERE {condition}",
        "the text of that function"),
    listed("dialect/mod.rs", "UPDATE\".to_owned()", "ON {condition} SET",
        "the same on MariaDB"),
    listed("dialect/mod.rs", "UPDATE {table}.{column} = {table}.{column}\"", "or_leave(",
        "an INSERT that leaves the row as it is"),
    listed("dialect/mod.rs", "UPDATE SET {sets}\"", "or_update(",
        "an INSERT of a row that a locked row guards, the job's or the execution's, or that adds to sums"),
    listed("dialect/mod.rs", "UPDATE {sets}\"", "or_update(",
        "the same on MariaDB"),

    listed("/change.rs", "UPDATE of locked rows changed another number of rows\"", "\"an UPDATE",
        "an error's text"),
    listed("mariadb/claims.rs", "UPDATE of locked rows changed another number of rows\"", "\"an UPDATE",
        "an error's text"),

    listed("/planned.rs", "update(dialect,(\"QRTZ_EXECUTE\",\"e\"),&moves(dialect,false)",
        "&claimable(dialect)",
        "the guard of claims"),
    listed("/planned.rs", "update(dialect,(\"QRTZ_EXECUTE\",\"e\"),&moves(dialect,true)",
        "claimable(dialect)",
        "the guard of claims"),
    listed("/planned.rs", "update(dialect,(\"QRTZ_EXECUTE\",\"e\"),&TAKE_SLOT",
        "dialect.seek(\"e.id\",\"w.id\")",
        "schedules whose rows the claim has locked"),
    listed("postgres/claims.rs", "UPDATE QRTZ_EXECUTE AS e SET {} FROM patience",
        "guarded_and_inserted(want,has_slots)",
        "the guard of claims"),
    listed("postgres/claims.rs", "UPDATE QRTZ_EXECUTE AS e SET {} FROM locked AS w{}",
        "guarded_and_inserted(want,has_slots)",
        "the guard of claims"),
    listed("mariadb/claims.rs", "UPDATE QRTZ_EXECUTE AS e SET e.slot_generation",
        "AND NOT EXISTS (SELECT 1 FROM QRTZ_RUN h",
        "schedules whose cursors the claim has moved"),
    listed("claim/mod.rs", "update(dialect,(\"QRTZ_RUN\",\"r\"),&sets,", "guarded(dialect,&guard::TAKE,\"r\")",
        "the guard of PENDING executions"),
    listed("claim/mod.rs", "update(dialect,(\"QRTZ_EXECUTE\",\"e\"),&sets",
        "dialect.seek(\"e.id\",\"w.schedule\")",
        "the fences of schedules whose rows the claim has locked"),
    listed("claim/mod.rs", "update(dialect,(\"QRTZ_EXECUTE\",\"e\"),&set,", "&claimable(dialect)",
        "the guard of claims"),
    listed("claim/mod.rs", "update(dialect,(\"QRTZ_RUN\",\"r\"),&set,", "guarded(dialect,&guard::TAKE,\"r\")",
        "the guard of PENDING executions"),
    listed("/run_end.rs", "update(dialect,(\"QRTZ_RUN\",\"r\")", "r.following_fire_time = {AWAITED}",
        "the ledger's record of a cursor that waited for the end of this run, with its row locked"),

    listed("/ensure.rs", "UPDATE QRTZ_EXECUTE SET version = version + 1\"", "guarded_by(update,guard,",
        "the guards of edits"),
    listed("/triggers.rs", "UPDATE QRTZ_TRIGGER SET last_fire_time = ?", "AND ended_time = -1\"",
        "the generation that has not ended, of a schedule whose row is locked"),
    listed("/triggers.rs", "update(dialect,(\"QRTZ_TRIGGER\",\"t\")", "AND t.ended_time = -1\"",
        "the same of schedules that this transaction has planned anew under their guard"),
    listed("/triggers.rs", "DELETE FROM QRTZ_TRIGGER WHERE application = ? AND ended_time >= 0", "AND NOT EXISTS",
        "generations that ended longer ago than retention and have no row left, which nobody changes"),
    listed("/triggers.rs", "DELETE FROM QRTZ_TRIGGER WHERE NOT EXISTS", "e.id = QRTZ_TRIGGER.execute_id",
        "what schedules had that are gone"),
    listed("verbs/sync.rs", "UPDATE QRTZ_OWNER SET revision = ?", "AND revision = ?",
        "an owner whose row is locked"),
    listed("/queue.rs", "UPDATE QRTZ_KEY SET origin = ?{}", "AND origin = ?\"",
        "a key whose row is locked"),
    listed("/node.rs", "UPDATE QRTZ_APP SET time_pre = ?, time_next = ?", "guarded_by(update,&guard::ELECT,",
        "the guard of elections"),
    listed("/node.rs", "UPDATE QRTZ_NODE SET beat = beat + 1", "guarded_by(update,&guard::HEARTBEAT,",
        "the guard of heartbeats"),
    listed("/order.rs", "UPDATE QRTZ_CANCEL SET seen_time = {}", "WHERE seen_time = -1\"",
        "a request of which the node had not heard"),
    listed("/purge.rs", "UPDATE QRTZ_APP SET ledger_from = ?", "AND ledger_from < ?\"",
        "a mark that only grows"),
    listed("/purge.rs", "UPDATE QRTZ_APP SET fence_from = ?", "AND fence_from < ?\"",
        "a mark that only grows"),
    listed("/requests.rs", "UPDATE QRTZ_REQUEST SET state = ?", "AND state = 'REQUESTED'",
        "a locked row that waits"),
    listed("/switch.rs", "UPDATE QRTZ_APP SET pause_ends = CASE", "pause_ends = -1 OR pause_ends > ?",
        "the earliest end of a pause: a later one is not noted"),
    listed("/order.rs", "UPDATE {table} SET {touch}", "WHERE id = ? AND application = ?\"",
        "a locked row that keeps its values"),
    listed("/bounds.rs", "UPDATE QRTZ_JOB SET {touch}", "WHERE id = ? AND job_class = ?\"",
        "a locked row that keeps its values"),

    listed("/migrate.rs", "DELETE FROM QRTZ_SCHEMA WHERE version = {LOCK} AND applied_time <", "- {STALE}\"",
        "the lock of a migration that was given up"),
    listed("/migrate.rs", "DELETE FROM QRTZ_SCHEMA WHERE version = {LOCK} AND name = ?\"", "AND name = ?\"",
        "one's own lock of a migration"),
    listed("/batch.rs", "delete(table,condition)", "condition:&str",
        "the function itself: its callers bring the guard"),
    listed("dialect/mod.rs", "DELETE FROM {table} WHERE rowid IN", "ON {condition})\"",
        "the text of that function"),
    listed("dialect/mod.rs", "DELETE FROM {table} AS {alias} USING\"", "WHERE {condition}\"",
        "the same on PostgreSQL"),
    listed("dialect/mod.rs", "DELETE {alias} FROM\"", "ON {condition}\"",
        "the same on MariaDB"),
    listed("/change.rs", "DELETE FROM QRTZ_STUCK WHERE execution_id = ?\"", "ChangeKind::Release",
        "of an execution that this transaction has released under its guard"),
    listed("/expected.rs", "DELETE FROM QRTZ_EXPECTED WHERE NOT EXISTS", "e.expected_by IS NOT NULL",
        "schedules of which nothing is expected"),
    listed("misfire/outcomes.rs", "DELETE FROM QRTZ_OUTCOME WHERE application = ?", "AND from_time <= ?\"",
        "spans that ended longer ago than retention"),
    listed("misfire/outcomes.rs", "delete(dialect,page)", "removed==rows.len()",
        "statements that callers bring, undone unless they remove all"),
    listed("misfire/outcomes.rs", "delete(dialect,(\"QRTZ_OUTCOME_NEW\",\"n\")", "n.first_run",
        "undone unless it removes just the rows that were read, which nobody changes"),
    listed("misfire/outcomes.rs", "delete(dialect,(\"QRTZ_OUTCOME\",\"o\")", "o.{column} = w.{column}",
        "undone unless it removes just the rows that were read, with the same counts"),
    listed("/queue.rs", "delete(dialect,(\"QRTZ_TAG\",\"t\")", "AND t.origin = w.id",
        "whole keys of executions that this transaction removes"),
    listed("/purge_queue.rs", "delete(dialect,(\"QRTZ_KEY\",\"k\")", "AND k.origin = w.id",
        "keys that still name what this transaction removes"),
    listed("/purge_queue.rs", "delete(dialect,(\"QRTZ_RUN\",\"r\")", "rows to be purged are no longer as they were seen",
        "undone unless it removes just what was seen to have ended"),
    listed("/audit.rs", "DELETE FROM QRTZ_CANCEL WHERE application = ? AND asked_time < ?", "NOT EXISTS",
        "requests whose executions are gone"),
    listed("/audit.rs", "DELETE FROM QRTZ_AUDIT WHERE application = ? AND made_time < ?", "AND id <= ?\"",
        "rows older than retention, which nobody changes"),
    listed("/requests.rs", "DELETE FROM QRTZ_REQUEST WHERE application = ?", "AND state <> 'REQUESTED'",
        "requests that ended longer ago than retention, which nobody changes"),
    listed("/bounds.rs", "delete(dialect,(\"QRTZ_BOUNDED\",\"c\")", "AND c.execution_id = w.id",
        "whole keys of executions that count no more, with their job locked or themselves removed"),
    listed("postgres/notes.rs", "DELETE FROM QRTZ_CLAIM WHERE id IN", "AND NOT EXISTS {OF_CLAIM}",
        "claims of which nothing is open"),
    listed("/said.rs", "delete(dialect,(\"QRTZ_SAID\",\"s\")", "NOT EXISTS",
        "what was said by executions that are gone"),
    listed("/orphans.rs", "DELETE FROM QRTZ_RUN WHERE NOT EXISTS", "old(delete)",
        "executions without a schedule, as old as the search asked"),
    listed("/purge.rs", "DELETE FROM QRTZ_NODE\"", "owned_by_none(",
        "nodes that have ended and own nothing"),
    listed("/purge.rs", "delete(dialect,page)", "delete:impl Fn",
        "statements that callers bring"),
    listed("/purge.rs", "delete(dialect,(\"QRTZ_EXECUTE\",\"e\")", "guarded(dialect,&guard::FORGET,",
        "the guard of what is forgotten"),
    listed("/purge.rs", "delete(dialect,(\"QRTZ_RUN\",\"r\")", "AND r.scheduled_time <= w.scheduled",
        "undone by its caller unless it removes just what was seen to have ended"),
];

/// The store's UPDATEs and DELETEs are those listed, each with its guard.
pub fn check(files: &[(&str, &str)]) {
    assert_eq!(faults(files, LISTED), [""; 0]);
}

/// What is wrong with the UPDATEs and DELETEs of these files, each a path and its source.
fn faults(files: &[(&str, &str)], listed: &[Listed]) -> Vec<String> {
    let (mut faults, mut found) = (Vec::new(), vec![0; listed.len()]);
    for (path, source) in files {
        for (text, function) in places(source) {
            let place = listed.iter().position(|it| path.ends_with(it.file) && text.starts_with(it.begins));
            match place {
                None => faults.push(format!("{path}: is not listed: {text:.120}")),
                Some(place) => {
                    found[place] += 1;
                    let Listed { begins, guard, .. } = listed[place];
                    if !function.contains(guard) {
                        faults.push(format!("{path}: lacks its guard {guard}: {begins}"));
                    }
                }
            }
        }
    }
    let other = listed.iter().zip(found).filter(|(_, found)| *found != 1);
    faults
        .extend(other.map(|(it, found)| format!("{}: {found} times: {}: {}", it.file, it.begins, it.reason)));
    faults
}

/// The places of a source that begin an UPDATE or a DELETE: the text from there on, and that of the function
/// around it.
fn places(source: &str) -> Vec<(String, String)> {
    let tokens = production(source);
    let of_function = |function: &[Token<'_>]| {
        let around = written(function);
        let begins: Vec<String> = (0..function.len()).flat_map(|at| beginning(&function[at..], at)).collect();
        begins.into_iter().map(|text| (text, around.clone())).collect::<Vec<_>>()
    };
    tokens.split(|it| *it == Token::Word("fn")).flat_map(of_function).collect()
}

/// The UPDATEs and DELETEs that begin with the first of these tokens, which is at this place behind the word
/// `fn`.
fn beginning(tokens: &[Token<'_>], place: usize) -> Vec<String> {
    match tokens {
        // At the very beginning it is the function's own name.
        [Token::Word("update" | "delete"), Token::Mark("("), ..] if place > 0 => vec![written(tokens)],
        [Token::Text(text), rest @ ..] => {
            let (text, rest) = (spaced(text), written(rest));
            let upper = text.to_ascii_uppercase();
            let of_word =
                |word: &str| -> Vec<usize> { upper.match_indices(word).map(|(at, _)| at).collect() };
            let begins =
                ["UPDATE", "DELETE"].into_iter().flat_map(of_word).filter(|at| is_change(&upper, *at));
            begins.map(|at| format!("{}\"{rest}", &text[at..])).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether the word UPDATE or DELETE stands alone at this place, and does not lock what a SELECT reads.
fn is_change(text: &str, at: usize) -> bool {
    let (before, behind) = (&text[..at], &text[at + "UPDATE".len()..]);
    let is_of_word = |it: char| it.is_alphanumeric() || it == '_';
    let locks = before.ends_with("FOR ") && matches!(behind.split(' ').nth(1), None | Some("OF" | "SKIP"));
    !before.ends_with(is_of_word) && !behind.starts_with(is_of_word) && !locks
}

/// Tokens as a text in which only words and strings contain spaces.
fn written(tokens: &[Token<'_>]) -> String {
    let mut text = String::new();
    for (place, token) in tokens.iter().enumerate() {
        match token {
            Token::Word(word) if place > 0 && matches!(tokens[place - 1], Token::Word(_)) => {
                text.extend([" ", word]);
            }
            Token::Word(it) | Token::Mark(it) => text.push_str(it),
            Token::Text(it) => text.push_str(&format!("\"{}\"", spaced(it))),
        }
    }
    text
}

/// A string's content on one line, with single spaces.
fn spaced(text: &str) -> String {
    text.split_whitespace().filter(|it| *it != "\\").collect::<Vec<_>>().join(" ")
}

pub fn unlisted_and_unguarded_updates_are_found() {
    let listed = [listed("sql/a.rs", "UPDATE T SET a = ?\"", "WHERE id = ? AND b = ?\"", "")];
    let faults = |source: &str| faults(&[("store/sql/a.rs", source)], &listed).join("; ");
    let whole = "fn f() { sql(\"UPDATE T SET a = ? WHERE id = ? AND b = ?\") }";
    assert!(faults(whole).contains("is not listed: UPDATE T SET a = ? WHERE"));
    let guarded =
        "fn f() { let it = sql(\"UPDATE T \\\n  SET a = ?\"); it.push(\" WHERE id = ? AND b = ?\") }";
    assert_eq!(faults(guarded), "");
    let others =
        "fn g() { \"SELECT a FROM T FOR UPDATE\"; \"b FOR UPDATE OF t\"; t.update_time; \"update_time\" }";
    assert_eq!(faults(&format!("{guarded} fn update() {{}} {others} // UPDATE")), "");
    // The WHERE is added later, and not enough, or in another function.
    for rest in ["it.push(\" WHERE id = ?\") }", "it } fn g() { \" WHERE id = ? AND b = ?\" }"] {
        let source = format!("fn f() {{ let it = sql(\"UPDATE T SET a = ?\"); {rest}");
        assert!(faults(&source).contains("lacks its guard"), "{source}");
    }
    let planted = [
        "let mut it = String::from(\"UPDATE T SET b = ?\"); it.push_str(\" WHERE id = ?\"); sql(it)",
        "sql(format!(\"UPDATE {table} SET {}\", sets) + \" WHERE id = ?\")",
        "sql(\"UPDATE\").push(\" T SET c = 1\")",
        "sql(\"update T set b = 1\")",
        "sql(\"BEGIN; UPDATE T SET b = 1\")",
        "sql(r#\"SET STATEMENT w = 0 FOR UPDATE T SET b = 1\"#)",
        "batch::update(dialect, table, &sets, &want, \"e.id = w.id\")",
        "dialect.update(table, &sets, \"e.id = w.id\")",
        "sql(\"DELETE FROM T WHERE id = ?\")",
        "batch::delete(dialect, table, &want, \"e.id = w.id\")",
    ];
    for statement in planted {
        let found = faults(&format!("{guarded} fn g() {{ {statement} }}"));
        assert!(found.contains("store/sql/a.rs: is not listed"), "{statement}: {found}");
    }
    assert!(faults(&format!("{guarded} {guarded}")).contains("2 times"));
    assert!(faults("").contains("0 times"));
}
