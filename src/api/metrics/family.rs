//! Families of samples, and the text that Prometheus reads.

use std::fmt::{self, Write};

use crate::domain::histogram::Histogram;

/// The figures of a node at an instant (counters since its start, gauges, and histograms of spans), or those
/// of a cluster ([`Client::metrics`](crate::Client::metrics)).
///
/// A node's are read from memory: the database is not asked, so that a scrape neither waits for it nor costs
/// it anything. `docs/guide/observing.md` lists the families. Their number, and that of their samples, is
/// bounded: a job's name is a label for the first 1,000 jobs of the node, a schedule's for the first 1,000
/// schedules of the application; no execution, key, tag or error ever is.
///
/// ```
/// use firetime::{Job, Scheduler};
/// # let folder = tempfile::tempdir()?;
/// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
/// const GREET: Job<()> = Job::new("greet");
/// let scheduler = Scheduler::builder("shop", &url).handler(GREET, |_, ()| Ok(())).start()?;
/// let metrics = scheduler.metrics();
/// let begun = metrics.number("firetime_executions_begun_total", &[("job", "greet")]);
/// assert_eq!(begun, Some(0.0));
/// assert!(metrics.to_prometheus().contains("firetime_lease_seconds{application=\"shop\"}"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Metrics {
    /// In the order of the guide.
    pub families: Vec<Family>,
}

/// Samples of one name.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Family {
    /// As Prometheus wants it: with its unit, and `_total` at the end of a counter's.
    pub name: &'static str,
    /// What it counts or measures, in one sentence.
    pub help: &'static str,
    /// Whether it only grows.
    pub kind: Kind,
    /// One for each set of labels.
    pub samples: Vec<Sample>,
}

/// The kind of a family's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// Numbers that only grow until the node ends.
    Counter,
    /// Numbers that grow and shrink.
    Gauge,
    /// Spans by their length, in seconds, since the start of the node.
    Histogram,
}

/// A value with its labels.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Sample {
    /// Names and values, `application` first.
    pub labels: Vec<(&'static str, String)>,
    /// Of its family's kind.
    pub value: Value,
}

/// A number or a histogram.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// Of a counter or a gauge.
    Number(f64),
    /// Of a histogram.
    Histogram(Histogram),
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

impl Family {
    pub(super) fn new(kind: Kind, name: &'static str, help: &'static str) -> Self {
        Self { name, help, kind, samples: Vec::new() }
    }

    pub(super) fn gauge(name: &'static str, help: &'static str) -> Self {
        Self::new(Kind::Gauge, name, help)
    }

    pub(super) fn number(mut self, labels: &[(&'static str, &str)], value: f64) -> Self {
        self.add(labels, Value::Number(value));
        self
    }

    pub(super) fn add(&mut self, labels: &[(&'static str, &str)], value: Value) {
        let labels = labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        self.samples.push(Sample { labels, value });
    }
}

/// A count as Prometheus counts; above 2^53 it is rounded.
pub(super) fn count(count: u64) -> f64 {
    count as f64
}

impl Metrics {
    /// The families, each sample with the label `application`.
    pub(super) fn of(application: &str, mut families: Vec<Family>) -> Self {
        for sample in families.iter_mut().flat_map(|family| &mut family.samples) {
            sample.labels.insert(0, ("application", application.to_owned()));
        }
        Self { families }
    }

    /// The family of this name; none if there is no such family.
    #[must_use]
    pub fn family(&self, name: &str) -> Option<&Family> {
        self.families.iter().find(|family| family.name == name)
    }

    /// The number of the first sample of this name that has all these labels; none if there is none.
    #[must_use]
    pub fn number(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        match self.sample(name, labels)?.value {
            Value::Number(number) => Some(number),
            Value::Histogram(_) => None,
        }
    }

    /// The first histogram of this name that has all these labels; none if there is none.
    #[must_use]
    pub fn histogram(&self, name: &str, labels: &[(&str, &str)]) -> Option<&Histogram> {
        match &self.sample(name, labels)?.value {
            Value::Number(_) => None,
            Value::Histogram(histogram) => Some(histogram),
        }
    }

    fn sample(&self, name: &str, labels: &[(&str, &str)]) -> Option<&Sample> {
        let has = |sample: &&Sample| {
            labels.iter().all(|(name, value)| sample.labels.iter().any(|it| it.0 == *name && it.1 == *value))
        };
        self.family(name)?.samples.iter().find(has)
    }

    /// The figures in Prometheus' text format, version 0.0.4. Serve it as
    /// [`Metrics::CONTENT_TYPE`].
    #[must_use]
    pub fn to_prometheus(&self) -> String {
        let mut text = String::new();
        for family in &self.families {
            // Writing into a String does not fail.
            family.write(&mut text).ok();
        }
        text
    }

    /// The `Content-Type` of [`Metrics::to_prometheus`].
    pub const CONTENT_TYPE: &'static str = "text/plain; version=0.0.4; charset=utf-8";
}

impl Family {
    fn write(&self, text: &mut String) -> fmt::Result {
        let Self { name, help, kind, samples } = self;
        writeln!(text, "# HELP {name} {help}")?;
        writeln!(text, "# TYPE {name} {}", kind.as_str())?;
        for Sample { labels, value } in samples {
            match value {
                Value::Number(number) => {
                    writeln!(text, "{name}{} {number}", Labels(labels, None))?;
                }
                Value::Histogram(histogram) => {
                    let mut below = 0;
                    let bounds = histogram.bounds.iter().copied().chain([f64::INFINITY]);
                    for (bound, count) in bounds.zip(&histogram.counts) {
                        below += count;
                        writeln!(text, "{name}_bucket{} {below}", Labels(labels, Some(bound)))?;
                    }
                    writeln!(text, "{name}_sum{} {}", Labels(labels, None), histogram.sum)?;
                    writeln!(text, "{name}_count{} {below}", Labels(labels, None))?;
                }
            }
        }
        Ok(())
    }
}

/// Labels in braces, and a bucket's bound beside them.
struct Labels<'a>(&'a [(&'static str, String)], Option<f64>);

impl fmt::Display for Labels<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(labels, bound) = self;
        f.write_char('{')?;
        for (place, (name, value)) in labels.iter().enumerate() {
            if place > 0 {
                f.write_char(',')?;
            }
            write!(f, "{name}=\"")?;
            for character in value.chars() {
                match character {
                    '\\' => f.write_str("\\\\")?,
                    '"' => f.write_str("\\\"")?,
                    '\n' => f.write_str("\\n")?,
                    _ => f.write_char(character)?,
                }
            }
            f.write_char('"')?;
        }
        match bound {
            Some(bound) if bound.is_infinite() => f.write_str(",le=\"+Inf\"")?,
            Some(bound) => write!(f, ",le=\"{bound}\"")?,
            None => {}
        }
        f.write_char('}')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_escapes_labels_and_adds_buckets_up() {
        let mut spans = Family::new(Kind::Histogram, "spans_seconds", "Spans.");
        let histogram = Histogram { bounds: &[0.5, 1.0], counts: vec![1, 0, 2], sum: 7.25 };
        spans.add(&[("job", "a\"b\\c\nd")], Value::Histogram(histogram));
        let gauge = Family::new(Kind::Gauge, "lease_seconds", "Lease.").number(&[], 16.5);
        let metrics = Metrics::of("shop", vec![spans, gauge]);
        let expected = concat!(
            "# HELP spans_seconds Spans.\n",
            "# TYPE spans_seconds histogram\n",
            "spans_seconds_bucket{application=\"shop\",job=\"a\\\"b\\\\c\\nd\",le=\"0.5\"} 1\n",
            "spans_seconds_bucket{application=\"shop\",job=\"a\\\"b\\\\c\\nd\",le=\"1\"} 1\n",
            "spans_seconds_bucket{application=\"shop\",job=\"a\\\"b\\\\c\\nd\",le=\"+Inf\"} 3\n",
            "spans_seconds_sum{application=\"shop\",job=\"a\\\"b\\\\c\\nd\"} 7.25\n",
            "spans_seconds_count{application=\"shop\",job=\"a\\\"b\\\\c\\nd\"} 3\n",
            "# HELP lease_seconds Lease.\n",
            "# TYPE lease_seconds gauge\n",
            "lease_seconds{application=\"shop\"} 16.5\n",
        );
        assert_eq!(metrics.to_prometheus(), expected);
        assert_eq!(metrics.number("lease_seconds", &[]), Some(16.5));
        assert_eq!(metrics.histogram("spans_seconds", &[]).map(Histogram::count), Some(3));
        assert_eq!((metrics.number("spans_seconds", &[]), metrics.number("none", &[])), (None, None));
        assert_eq!(metrics.number("lease_seconds", &[("job", "x")]), None);
    }
}
