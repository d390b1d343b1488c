//! Payloads, results and logs that nobody sees in a console, and what quotes them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::console::web::trouble::Trouble;
use crate::{
    AuditView, Because, Check, Client, ErrorKind, ExecutionDetails, ExecutionLogs, ExecutionView,
    ScheduleDetails, ScheduleField, ScheduleView, Why,
};

/// What is shown in the place of something hidden.
pub(super) const HIDDEN: &str = "(hidden)";
/// Words before a decoder's own: these quote what they cannot decode.
const DECODING: [&str; 2] = ["decode its payload", "payload cannot be decoded"];
/// A shorter value may be part of any word, and is not looked for in lines of a log.
const SHORTEST: usize = 3;

/// Which jobs' payloads, checkpoints, results and logs are hidden, and which fields of others'.
#[derive(Clone, Debug, Default)]
pub(crate) struct Masks {
    hidden: BTreeSet<String>,
    fields: BTreeMap<String, BTreeSet<String>>,
}

impl Masks {
    pub(crate) fn hide(&mut self, job: &str) {
        self.hidden.insert(job.to_owned());
    }

    pub(crate) fn mask(&mut self, job: &str, field: &str) {
        self.fields.entry(job.to_owned()).or_default().insert(field.to_owned());
    }

    fn is_empty(&self) -> bool {
        self.hidden.is_empty() && self.fields.is_empty()
    }

    /// Whether anything of a job is hidden.
    pub(crate) fn touches(&self, job: &str) -> bool {
        self.hidden.contains(job) || self.fields.contains_key(job)
    }

    /// JSON of a job as it is shown.
    fn value<'a>(&self, job: &str, json: &'a str) -> Cow<'a, str> {
        if self.hidden.contains(job) {
            return HIDDEN.into();
        }
        let Some(fields) = self.fields.get(job) else { return json.into() };
        match serde_json::from_str::<Value>(json) {
            Ok(mut value) => {
                each_field(&mut value, fields, &mut |value| *value = HIDDEN.into());
                value.to_string().into()
            }
            // Nobody knows where the field is in it.
            Err(_) => HIDDEN.into(),
        }
    }

    pub(crate) fn schedule(&self, details: &mut ScheduleDetails) {
        if self.touches(&details.schedule.job) {
            details.payload = self.value(&details.schedule.job, &details.payload).into_owned();
        }
        self.schedules(std::slice::from_mut(&mut details.schedule));
    }

    /// Hides what decoders say of payloads in a list of schedules.
    pub(crate) fn schedules(&self, list: &mut [ScheduleView]) {
        for it in list.iter_mut().filter(|it| self.touches(&it.job)) {
            cut(&mut it.left_alone);
        }
    }

    /// The same in a list of executions.
    pub(crate) fn executions(&self, list: &mut [ExecutionView]) {
        for it in list.iter_mut().filter(|it| self.touches(&it.job)) {
            cut(&mut it.error);
        }
    }

    /// The same in what needs people, of all jobs if anything of one is hidden.
    pub(crate) fn check(&self, check: &mut Check) {
        for finding in check.findings.iter_mut().filter(|_| !self.is_empty()) {
            cut(&mut finding.problem);
        }
    }

    /// The same in an answer, and the payloads that the audit tells there, as [`Self::audit`] hides them.
    pub(crate) fn why(&self, why: &mut Why) {
        if self.is_empty() {
            return;
        }
        cut(&mut why.sentence);
        if let Because::Undecodable { error, .. } = &mut why.because {
            cut(error);
        }
        for fact in &mut why.evidence {
            match fact.tells_payload {
                true => HIDDEN.clone_into(&mut fact.known),
                false => cut(&mut fact.known),
            }
        }
    }

    /// Hides what is to be hidden of an execution and of what its handlers have said. A payload of its own
    /// may be missing, and be its schedule's: its words are looked for in the log all the same.
    pub(crate) fn execution(
        &self,
        client: &Client,
        details: &mut ExecutionDetails,
        logs: &mut ExecutionLogs,
    ) -> Result<(), Trouble> {
        let job = details.execution.job.clone();
        self.executions(std::slice::from_mut(&mut details.execution));
        self.executions(&mut details.attempts);
        if !self.touches(&job) {
            return Ok(());
        }
        let inherited = match (&details.payload, self.fields.contains_key(&job)) {
            (None, true) => match client.schedule(&details.execution.schedule) {
                Ok(schedule) => Some(schedule.payload),
                Err(error) if error.kind() == ErrorKind::NotFound => None,
                Err(error) => return Err(error.into()),
            },
            _ => None,
        };
        let texts = [&details.payload, &details.checkpoint, &details.result, &inherited];
        let words = self.words(&job, texts.into_iter().flatten());
        let is_hidden = |text: &str| match &words {
            None => true,
            Some(words) => words.iter().any(|word| text.contains(word.as_str())),
        };
        for line in logs.lines.iter_mut().filter(|line| is_hidden(&line.text)) {
            HIDDEN.clone_into(&mut line.text);
        }
        for text in [&mut details.payload, &mut details.checkpoint, &mut details.result] {
            *text = text.take().map(|text| self.value(&job, &text).into_owned());
        }
        Ok(())
    }

    /// The words that a line of a job's log may not have: the names of its masked fields and their values.
    /// None if it may have no word at all.
    fn words<'a>(&self, job: &str, texts: impl Iterator<Item = &'a String>) -> Option<BTreeSet<String>> {
        let fields = self.fields.get(job).filter(|_| !self.hidden.contains(job))?;
        let names = fields.iter().flat_map(|it| [format!("{it}="), format!("{it}:"), format!("\"{it}\"")]);
        let mut words: BTreeSet<String> = names.collect();
        let mut keep = |value: &mut Value| scalars(value, &mut words);
        for text in texts {
            each_field(&mut serde_json::from_str(text).ok()?, fields, &mut keep);
        }
        Some(words)
    }

    /// Hides the payloads that the audit tells of, all of them if those of one job are hidden: a schedule may
    /// have had another job when it was changed.
    pub(crate) fn audit(&self, entries: &mut [AuditView]) {
        let has_payload = |entry: &&mut AuditView| entry.fields.contains(&ScheduleField::Payload);
        for entry in entries.iter_mut().filter(has_payload).filter(|_| !self.is_empty()) {
            for text in [&mut entry.was, &mut entry.became] {
                HIDDEN.clone_into(text);
            }
        }
    }
}

/// Hides what a decoder says in a text, and all that follows.
fn cut(text: &mut String) {
    let begin = DECODING.iter().filter_map(|words| text.find(words)).min();
    let colon = begin.and_then(|begin| Some(begin + text.get(begin..)?.find(": ")?));
    if let Some(colon) = colon {
        text.truncate(colon);
        text.push_str(": ");
        text.push_str(HIDDEN);
    }
}

/// Calls `change` with the value of each field of these names, wherever it is.
fn each_field(value: &mut Value, fields: &BTreeSet<String>, change: &mut impl FnMut(&mut Value)) {
    match value {
        Value::Object(object) => {
            for (name, value) in object.iter_mut() {
                match fields.contains(name) {
                    true => change(value),
                    false => each_field(value, fields, change),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|value| each_field(value, fields, change)),
        _ => {}
    }
}

/// Adds the texts and numbers in a value.
fn scalars(value: &Value, words: &mut BTreeSet<String>) {
    let word = match value {
        Value::Object(object) => return object.values().for_each(|value| scalars(value, words)),
        Value::Array(list) => return list.iter().for_each(|value| scalars(value, words)),
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        Value::Bool(_) | Value::Null => return,
    };
    if word.chars().count() >= SHORTEST {
        words.insert(word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masks() -> Masks {
        let mut masks = Masks::default();
        masks.hide("secret");
        masks.mask("mail", "to");
        masks.mask("mail", "card");
        masks
    }

    #[test]
    fn a_masked_field_is_hidden_wherever_it_is() {
        let masks = masks();
        let json = r#"{"a":[{"to":"ann@x"},{"b":{"card":{"number":4111}}}],"to":null,"n":1.5}"#;
        let shown = r#"{"a":[{"to":"(hidden)"},{"b":{"card":"(hidden)"}}],"n":1.5,"to":"(hidden)"}"#;
        assert_eq!(masks.value("mail", json), shown);
        assert_eq!((masks.value("secret", json), masks.value("other", json)), (HIDDEN.into(), json.into()));
        assert_eq!(masks.value("mail", "{\"to\": ann"), HIDDEN, "it is no JSON");
    }

    #[test]
    fn lines_that_have_a_masked_word_are_known_by_it() {
        let masks = masks();
        let text = r#"{"to":" ann@x ","card":[{"number":4111,"cvc":12,"ok":true}],"n":"plain"}"#.to_owned();
        let words = masks.words("mail", std::iter::once(&text)).unwrap();
        assert_eq!(
            words.iter().map(String::as_str).collect::<Vec<_>>(),
            ["\"card\"", "\"to\"", "4111", "ann@x", "card:", "card=", "to:", "to="]
        );
        assert_eq!(masks.words("secret", std::iter::once(&text)), None);
        assert_eq!(masks.words("mail", std::iter::once(&"no JSON".to_owned())), None);
    }
}
