//! People log in by a form, and out again.

use std::os::unix::fs::PermissionsExt;

use firetime::console::{Options, Users, hash_password};
use serde_json::json;

use crate::database::ServerKind;
use crate::opens::{MISFITS, assert_is_quiet};
use crate::shop::{Server, Shop};
use crate::tab;

pub fn people_log_in_and_out(kind: ServerKind) {
    let shop = Shop::open(kind);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    let line = format!("user ops operator {}\n", hash_password("correct horse battery").unwrap());
    std::fs::write(&file, line).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let console = Server::start(&shop.client, Options::new().users(Users::open(&file).unwrap()));
    let page = tab();
    for width in [1280, 360] {
        page.size(width, 800);
        page.open(&console.at("schedule?name=report-stock"));
        assert!(page.address().starts_with("/login"), "{}", page.address());
        assert_eq!(page.run(MISFITS), json!([]), "at {width} px");
    }
    page.size(1280, 800);
    page.fill("input[name=name]", "ops");
    page.fill("input[name=password]", "wrong horse");
    page.follow("button | Log in");
    assert!(page.has("[role=alert]"), "{}", page.text());
    page.fill("input[name=password]", "correct horse battery");
    page.follow_key("Enter");
    assert!(page.has("h1 | report-stock") && page.has(".rail footer span | ops"), "{}", page.text());
    // An operator may pause, and not remove.
    assert!(page.has(".head a | Pause") && !page.has(".head a | Remove"), "{}", page.text());
    assert_eq!(page.run(MISFITS), json!([]));
    page.follow("button | Log out");
    page.open(&console.at("now"));
    assert!(page.address().starts_with("/login"), "{}", page.address());
    assert_is_quiet(&page, "logging in");
}
