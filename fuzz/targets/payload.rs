//! The bytes of a payload column, as a node decodes them before it claims.
#![no_main]

use std::collections::{BTreeMap, HashMap};

use libfuzzer_sys::fuzz_target;
use serde::Deserialize;

#[path = "../../src/domain/payload.rs"]
#[allow(dead_code, reason = "a node decodes more than it encodes here")]
mod payload;

#[derive(Deserialize)]
#[allow(dead_code, reason = "only decoding counts")]
#[serde(deny_unknown_fields)]
struct Order {
    id: u64,
    #[serde(default)]
    lines: Vec<(String, i32, f64)>,
    #[serde(rename = "to")]
    address: Option<Box<Order>>,
    kind: Kind,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "only decoding counts")]
enum Kind {
    Plain,
    Weighed(f32),
    Sent { at: i64, tags: BTreeMap<String, char> },
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "only decoding counts")]
#[serde(untagged)]
enum Any {
    Flag(bool),
    Number(i128),
    Text(String),
    List(Vec<Any>),
    Map(HashMap<String, Any>),
}

fuzz_target!(|column: &[u8]| {
    // What is no UTF-8 reads as NULL, and NULL as an empty text.
    let text = str::from_utf8(column).unwrap_or_default();
    let answers = [
        payload::decode::<()>(text).map(drop),
        payload::decode::<bool>(text).map(drop),
        payload::decode::<u64>(text).map(drop),
        payload::decode::<f64>(text).map(drop),
        payload::decode::<String>(text).map(drop),
        payload::decode::<Vec<Option<i8>>>(text).map(drop),
        payload::decode::<serde_json::Value>(text).map(drop),
        payload::decode::<serde::de::IgnoredAny>(text).map(drop),
        payload::decode::<Order>(text).map(drop),
        payload::decode::<Any>(text).map(drop),
    ];
    for reason in answers.iter().filter_map(|answer| answer.as_ref().err()) {
        assert!(!reason.is_empty() && reason.chars().count() < 400, "{reason}");
    }
    // What is written reads back.
    if let Ok(value) = payload::decode::<serde_json::Value>(text) {
        let written = payload::encode(&value).expect("a value can be written");
        let read: serde_json::Value = payload::decode(&written).expect("what was written can be read");
        // Numbers beyond a float's reach may differ in their last digit.
        assert_eq!(read.is_number(), value.is_number());
        assert!(value.is_number() || read.is_object() == value.is_object());
    }
});
