//! Requests that other programs have written: each is carried out once, and those of one subject in order.

use std::collections::BTreeMap;

use super::history::{History, Millis, Verdict};

pub(super) fn requests(history: &History, verdict: &mut Verdict) {
    let mut last: BTreeMap<&str, (i64, Millis)> = BTreeMap::new();
    for request in &history.requests {
        let Some(ended) = request.ended else {
            verdict.blame(format!("not carried out: {request:?}"));
            continue;
        };
        let Some(subject) = request.subject.as_deref() else { continue };
        if let Some((earlier, at)) = last.insert(subject, (request.id, ended))
            && at > ended
        {
            verdict.blame(format!("carried out before request {earlier}, which ended at {at}: {request:?}"));
        }
    }
}
