//! Editing a schedule: its preview, and what happens if somebody else was faster.

use firetime::{AuditFilter, Cron, ExecutionState, Gap, Overlap};

use super::*;

pub const TESTS: &[(&str, fn())] = &[
    ("a_preview_says_what_an_edit_comes_to", a_preview_says_what_an_edit_comes_to),
    ("an_edit_withdraws_what_its_preview_said", an_edit_withdraws_what_its_preview_said),
    ("an_edit_of_what_somebody_else_changed_shows_who_and_keeps_the_input", somebody_else_was_faster),
    ("what_cannot_be_is_said_beside_its_field", what_cannot_be_is_said_beside_its_field),
    ("every_field_of_the_form_can_be_edited", every_field_of_the_form_can_be_edited),
    ("what_is_emptied_is_taken_away", what_is_emptied_is_taken_away),
    ("a_payload_that_is_hidden_is_in_no_form", a_payload_that_is_hidden_is_in_no_form),
    ("each_kind_of_trigger_can_be_edited", each_kind_of_trigger_can_be_edited),
];

/// A nightly schedule of Berlin.
fn nightly() -> (Database, Client) {
    let database = ServerKind::Sqlite.fresh();
    let client = client(&database).acting_as("<b>ann</b>");
    let trigger = Trigger::Cron(Cron::parse("0 30 2 * * ?", "Europe/Berlin").unwrap().with_gap(Gap::Skip));
    let schedule = Schedule::new("nightly", TEXT, &"all".to_owned(), trigger).unwrap();
    client.ensure(&schedule.description("the figures").priority(3)).run().unwrap();
    (database, client)
}

fn a_payload_that_is_hidden_is_in_no_form() {
    let (_database, client) = nightly();
    let fields = filled(&client, "nightly", &[("payload", "\"other\""), ("priority", "9")]);
    let hides = || Options::new().hide_payloads(TEXT.name());
    for path in ["/edit?name=nightly".to_owned(), format!("/edit?{}", encoded(&borrowed(&fields)))] {
        let page = ask(&client, hides(), &path, &[("host", "localhost")]);
        assert_eq!(page.status, StatusCode::OK, "{path}");
        assert!(
            !page.text.contains("&#34;all&#34;") && !page.text.contains("<textarea"),
            "{path}: {}",
            page.text
        );
    }
}

/// The fields of the form that shows a schedule's fields, as a browser sends them.
fn form(page: &Answer) -> Vec<(String, String)> {
    let form = page.text.split("<form class=\"ask fields\"").nth(1).unwrap().split("</form>").next().unwrap();
    let attribute = |tag: &str, name: &str| {
        let value = tag.split(&format!(" {name}=\"")).nth(1)?.split('"').next()?;
        Some(value.replace("&#34;", "\"").replace("&#60;", "<").replace("&#62;", ">").replace("&#38;", "&"))
    };
    let inputs = form.split("<input").skip(1).map(|tag| tag.split('>').next().unwrap());
    let inputs = inputs.map(|tag| (attribute(tag, "name").unwrap(), attribute(tag, "value").unwrap()));
    let selects = form.split("<select").skip(1).map(|tag| {
        let picked =
            tag.split("<option").skip(1).find(|it| it.split('>').next().unwrap().contains(" selected"));
        (attribute(tag, "name").unwrap(), attribute(picked.unwrap(), "value").unwrap())
    });
    let areas = form.split("<textarea").skip(1).map(|tag| {
        let text = tag.split('>').nth(1).unwrap().split("</textarea").next().unwrap();
        (attribute(tag, "name").unwrap(), text.replace("&#34;", "\""))
    });
    inputs.chain(selects).chain(areas).collect()
}

/// The form of a schedule with other values in some fields.
fn filled(client: &Client, name: &str, others: &[(&str, &str)]) -> Vec<(String, String)> {
    let page = get(client, &format!("/edit?{}", encoded(&[("name", name)])));
    assert_eq!(page.status, StatusCode::OK, "{}", page.text);
    let mut fields = form(&page);
    for (field, value) in others {
        let at = fields.iter().position(|(name, _)| name == field).unwrap_or_else(|| panic!("{field}"));
        fields[at].1 = (*value).to_owned();
    }
    fields
}

fn borrowed(fields: &[(String, String)]) -> Vec<(&str, &str)> {
    fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

fn preview(client: &Client, fields: &[(String, String)]) -> Answer {
    get(client, &format!("/edit?{}", encoded(&borrowed(fields))))
}

/// Orders the edit that a preview shows.
fn order(client: &Client, fields: &[(String, String)]) -> String {
    let mut fields = borrowed(fields);
    fields.extend([("verb", "edit"), ("reason", "the backup"), ("back", "now")]);
    told(client, &fields)
}

fn a_preview_says_what_an_edit_comes_to() {
    let (_database, client) = nightly();
    let unchanged = preview(&client, &filled(&client, "nightly", &[]));
    assert!(unchanged.text.contains("Nothing would change."), "{}", unchanged.text);
    let others = [("cron", "0 15 2,4 * * ?"), ("payload", "{\"shop\": \"<i>\"}")];
    let fields = filled(&client, "nightly", &others);
    let page = preview(&client, &fields);
    assert_is_text(&page, "preview");
    for said in [
        "every day at 02:15 and 04:15, not at times that the clocks skip (Europe/Berlin): cron 0 15 2,4 * * ?",
        "{&#34;shop&#34;: &#34;&#60;i&#62;&#34;}",
        "It withdraws nothing",
        "Europe/Berlin",
        "go forward at 02:00: what they skip does not fire.",
        "02:15:00 comes twice, and fires the first time only.",
        "name=\"token\"",
    ] {
        assert!(page.text.contains(said), "{said}: {}", page.text);
    }
    let preview = page.text.split("id=\"preview\"").nth(1).unwrap().split("</section>").next().unwrap();
    assert_eq!(preview.matches(" 02:30:00").count(), 10, "{preview}");
    assert_eq!(
        (preview.matches(" 02:15:00").count(), preview.matches(" 04:15:00").count()),
        (6, 5),
        "{preview}"
    );
    assert!(!preview.contains("<strong>priority"), "what was left as it is does not change: {preview}");
    assert_eq!(client.schedule("nightly").unwrap().payload, "\"all\"", "nothing is changed before that");
    assert_eq!(order(&client, &fields), "nightly is changed: trigger, payload.");
    let trigger = client.schedule("nightly").unwrap().schedule.trigger;
    assert_eq!(trigger, "cron 0 15 2,4 * * ? [Europe/Berlin], gap SKIP");
    let edit = client.audit(&AuditFilter { limit: 1, ..AuditFilter::default() }).unwrap().remove(0);
    assert_eq!(
        (edit.verb.as_str(), edit.actor.as_str(), edit.reason.as_str()),
        ("edit", "<b>ann</b>", "the backup")
    );
}

fn an_edit_withdraws_what_its_preview_said() {
    let (database, client) = nightly();
    behind(&database, &client);
    let fields = filled(&client, "often", &[("span", "20m")]);
    let page = preview(&client, &fields);
    assert!(page.text.contains("It withdraws 1 due occurrence, of "), "{}", page.text);
    assert!(page.text.contains("every 20 minutes"), "{}", page.text);
    assert!(order(&client, &fields).contains("; it withdrew 1 due occurrence, of "));
    let rows = client.executions(&ExecutionFilter::default()).unwrap();
    assert_eq!(rows[0].state, ExecutionState::Withdrawn);
}

fn somebody_else_was_faster() {
    let (_database, client) = nightly();
    let fields = filled(&client, "nightly", &[("priority", "9"), ("description", "<i>mine</i>")]);
    client
        .clone()
        .acting_as("bob<i>")
        .edit("nightly")
        .misfire(firetime::MisfirePolicy::FireAll)
        .reason("why")
        .run()
        .unwrap();
    assert!(order(&client, &fields).contains("somebody has changed nightly since you read it"));
    assert_eq!(client.schedule("nightly").unwrap().priority, 3);
    let page = preview(&client, &fields);
    assert_is_text(&page, "conflict");
    assert!(page.text.contains("bob&#60;i&#62;, edit") && page.text.contains("(why)"), "{}", page.text);
    assert!(page.text.contains("value=\"9\"") && page.text.contains("&#60;i&#62;mine"), "{}", page.text);
    assert_eq!(links(&page, "Begin anew"), ["/edit?name=nightly"]);
    let again = get(&client, &links(&page, "Look at my change")[0]);
    let changed = again.text.split("id=\"preview\"").nth(1).unwrap().split("</section>").next().unwrap();
    assert!(
        changed.contains("priority") && !changed.contains("<strong>misfire"),
        "what bob did stays: {changed}"
    );
    assert_eq!(order(&client, &form(&again)), "nightly is changed: description, priority.");
    let details = client.schedule("nightly").unwrap();
    assert_eq!((details.priority, details.misfire.as_str()), (9, "FIRE_ALL"));
}

fn what_cannot_be_is_said_beside_its_field() {
    let (_database, client) = nightly();
    let wrong = [
        ("cron", "30 2 * * *", "`0 30 2 * * ?`"),
        ("cron", "0 0 25 * * ?", "write 0 to 23"),
        ("cron_zone", "Mars/Olympus", "unknown time zone"),
        ("payload", "{", "This is no JSON"),
        ("priority", "high", "Write a whole number"),
        ("threshold", "soon", "such as 90s"),
        ("time_limit", "5", "such as 90s"),
        ("expected_by", "-1h", "such as 90s"),
        ("pause_after", "x", "1 to 1000"),
        ("pause_after", "1001", "1000"),
        ("ends", "tomorrow", "is no instant"),
    ];
    for (field, text, said) in wrong {
        let fields = filled(&client, "nightly", &[(field, text), ("description", "kept")]);
        let page = preview(&client, &fields);
        assert_eq!(page.status, StatusCode::OK, "{field}");
        let problem = page.text.split("class=\"problem\" role=\"alert\">").nth(1);
        let problem =
            problem.unwrap_or_else(|| panic!("{field}: {}", page.text)).split("</span>").next().unwrap();
        assert!(problem.replace("&#34;", "\"").contains(said), "{field}: {problem}");
        assert_eq!(form(&page), fields, "the input is kept");
        assert!(!page.text.contains("id=\"preview\""), "{field}");
        assert!(order(&client, &fields).starts_with("Nothing was changed: "), "{field}");
    }
    let queue = filled(&client, "nightly", &[("overlap", "QUEUE"), ("waiting", "many")]);
    assert!(preview(&client, &queue).text.contains("Say how many may wait"));
    assert_eq!(client.schedule("nightly").unwrap().schedule.description, "the figures");
    for wrong in ["name=nightly&version=x", "name=nightly&version=1&read=1&was=zz", "version=1", "name=none"]
    {
        let status = get(&client, &format!("/edit?{wrong}")).status;
        assert!(status.is_client_error(), "{wrong}: {status}");
    }
    let read_only =
        ask(&client, Options::new().read_only(true), "/edit?name=nightly", &[("host", "localhost")]);
    assert_eq!(read_only.status, StatusCode::FORBIDDEN);
}

fn every_field_of_the_form_can_be_edited() {
    let (_database, client) = nightly();
    let fields = [
        ("starts", "2026-01-31T10:05:00Z"),
        ("ends", "2099-01-31T10:05:00Z"),
        ("payload", "\"some\""),
        ("description", "other"),
        ("priority", "-3"),
        ("misfire", "DO_NOTHING"),
        ("threshold", "90s"),
        ("time_limit", "15m"),
        ("overlap", "QUEUE"),
        ("waiting", "3"),
        ("pause_after", "7"),
        ("expected_by", "2h"),
    ];
    let said = order(&client, &filled(&client, "nightly", &fields));
    assert_eq!(said.matches(", ").count(), 10, "{said}");
    let now: Vec<(String, String)> = filled(&client, "nightly", &[]);
    for (field, value) in fields {
        assert!(now.contains(&(field.to_owned(), value.to_owned())), "{field}: {now:?}");
    }
    assert_eq!(
        order(&client, &filled(&client, "nightly", &[("expected_by", "")])),
        "nightly is changed: expected by."
    );
    assert!(order(&client, &filled(&client, "nightly", &[("waiting", "4")])).contains("overlap"));
    assert_eq!(client.schedule("nightly").unwrap().overlap, Overlap::Queue(4));
}

fn what_is_emptied_is_taken_away() {
    let (_database, client) = nightly();
    let before = client.schedule("nightly").unwrap();
    let fields = [
        ("starts", "2026-01-31T10:05:00Z"),
        ("ends", "2099-01-31T10:05:00Z"),
        ("description", "other"),
        ("threshold", "90s"),
        ("time_limit", "15m"),
        ("pause_after", "7"),
        ("expected_by", "2h"),
    ];
    order(&client, &filled(&client, "nightly", &fields));
    let none = fields.map(|(field, _)| (field, ""));
    let page = preview(&client, &filled(&client, "nightly", &none));
    assert!(page.text.contains("2099-01-31 10:05:00"), "it says what it was: {}", page.text);
    let said = order(&client, &filled(&client, "nightly", &none));
    assert_eq!(said.matches(", ").count(), fields.len() - 1, "{said}");
    let after = client.schedule("nightly").unwrap();
    assert_eq!((after.starts, after.ends, after.time_limit, after.pause_after), (None, None, None, None));
    let of = |it: &firetime::ScheduleDetails| (it.schedule.misfire_threshold, it.schedule.expected_by);
    assert_eq!((of(&after), after.schedule.description.as_str()), (of(&before), ""));
    // What has to be there is asked for.
    for (field, wanted) in [("priority", "whole number"), ("payload", "no JSON"), ("cron", "cron")] {
        let page = preview(&client, &filled(&client, "nightly", &[(field, "")])).text;
        assert!(page.contains("role=\"alert\"") && page.contains(wanted), "{field}: {page}");
    }
}

fn each_kind_of_trigger_can_be_edited() {
    let (_database, client) = nightly();
    let trigger = || client.schedule("nightly").unwrap().schedule.trigger;
    for (others, becomes) in [
        (&[("kind", "every"), ("span", "15m"), ("times", "7")][..], "every 900000 ms, 7 times"),
        (&[("times", "")], "every 900000 ms"),
        (&[("kind", "after"), ("span", "90s")], "90000 ms after each run"),
        (&[("kind", "once"), ("at", "2099-01-31 10:05")], "once"),
        (&[("kind", "cron"), ("cron", "@daily")], "cron @daily [UTC]"),
        (&[("cron_zone", "Asia/Tokyo")], "cron @daily [Asia/Tokyo]"),
    ] {
        let said = order(&client, &filled(&client, "nightly", others));
        assert!(said.starts_with("nightly is changed: trigger"), "{others:?}: {said}");
        assert_eq!(trigger(), becomes);
        let same = preview(&client, &filled(&client, "nightly", &[]));
        assert!(same.text.contains("Nothing would change."), "{becomes}: {}", same.text);
    }
}
