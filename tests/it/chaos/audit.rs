//! An audit of the tests' own: triggers write down every change of an execution's row, as it is made.

use super::hand::Hand;
use crate::support::database::ServerKind;

/// The table the triggers fill; `was` and `becomes` are empty where there is no row before or after.
const TABLE: &str = "CREATE TABLE chaos_change (id BIGINT NOT NULL PRIMARY KEY AUTO, at BIGINT NOT NULL, \
     execution BIGINT NOT NULL, was VARCHAR(20) NOT NULL, becomes VARCHAR(20) NOT NULL, \
     was_at VARCHAR(36) NOT NULL, comes_to VARCHAR(36) NOT NULL)";

const INSERT: &str = "INSERT INTO chaos_change (at, execution, was, becomes, was_at, comes_to) VALUES";

/// One trigger per verb: what it calls the row, and what is known before and after.
const VERBS: [(&str, &str, &str); 3] = [
    ("INSERT", "NEW.id", "'', NEW.state, '', NEW.node"),
    ("UPDATE", "NEW.id", "OLD.state, NEW.state, OLD.node, NEW.node"),
    ("DELETE", "OLD.id", "OLD.state, '', OLD.node, ''"),
];

/// The application's own table: what handlers write that complete in the same transaction.
const EFFECTS: &str = "CREATE TABLE chaos_effect (execution BIGINT NOT NULL, fence BIGINT NOT NULL, \
     at BIGINT NOT NULL, PRIMARY KEY (execution, fence, at))";

/// Makes tables and triggers. The clock is the database's, read when the row is locked.
pub fn install(hand: &mut Hand, kind: ServerKind) {
    let mut run = |text: String| hand.run(&text).unwrap();
    run(EFFECTS.to_owned());
    match kind {
        #[cfg(feature = "sqlite")]
        ServerKind::Sqlite => {
            run(TABLE.replace("BIGINT NOT NULL PRIMARY KEY AUTO", "INTEGER PRIMARY KEY AUTOINCREMENT"));
            let clock = "CAST(ROUND(unixepoch('subsec') * 1000) AS INTEGER)";
            for (verb, id, states) in VERBS {
                run(format!(
                    "CREATE TRIGGER chaos_{verb} AFTER {verb} ON QRTZ_RUN BEGIN {INSERT} ({clock}, {id}, {states}); END"
                ));
            }
        }
        #[cfg(feature = "postgres")]
        ServerKind::Postgres => {
            run(TABLE.replace("NOT NULL PRIMARY KEY AUTO", "GENERATED ALWAYS AS IDENTITY PRIMARY KEY"));
            let clock = "CAST(FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000) AS BIGINT)";
            for (verb, id, states) in VERBS {
                run(format!(
                    "CREATE FUNCTION chaos_{verb}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
                     {INSERT} ({clock}, {id}, {states}); RETURN NULL; END $$; \
                     CREATE TRIGGER chaos_{verb} AFTER {verb} ON QRTZ_RUN FOR EACH ROW EXECUTE FUNCTION chaos_{verb}()"
                ));
            }
        }
        #[cfg(feature = "mysql")]
        ServerKind::Mariadb => {
            run(TABLE.replace("PRIMARY KEY AUTO", "AUTO_INCREMENT PRIMARY KEY"));
            let clock = "CAST(FLOOR(UNIX_TIMESTAMP(SYSDATE(6)) * 1000) AS SIGNED)";
            for (verb, id, states) in VERBS {
                run(format!(
                    "CREATE TRIGGER chaos_{verb} AFTER {verb} ON QRTZ_RUN FOR EACH ROW \
                     {INSERT} ({clock}, {id}, {states})"
                ));
            }
        }
    }
}
