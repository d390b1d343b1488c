//! Spans over time as a picture of points, with its figures in words.

use std::time::Duration;

use askama::Template;
use askama::filters::HtmlSafe;
use chrono::{DateTime, Utc};

use crate::console::words::{Moment, length};

/// Where the points lie, and where the labels are: the left edge, the width, the top, the height.
const PLACE: (i64, i64, i64, i64) = (64, 390, 8, 96);
/// From here on the largest is so many times the smallest that equal steps would hide what is small.
const MANY_TIMES: i64 = 20;

/// A span at an instant.
pub(crate) struct Point {
    pub(crate) at: DateTime<Utc>,
    pub(crate) millis: i64,
    /// Whether it stands out: it did not end well.
    pub(crate) is_bad: bool,
    pub(crate) title: String,
}

/// The points as they are drawn.
#[derive(Template)]
#[template(path = "console/plot.html")]
pub(crate) struct Plot {
    /// Tells it from others on the page.
    id: &'static str,
    title: String,
    /// The figures in words.
    pub(crate) words: String,
    dots: Vec<Dot>,
    /// The labels of the spans, each with its place.
    lines: Vec<(i64, String)>,
    /// The labels of the first instant and the last.
    ends: [String; 2],
}

impl HtmlSafe for Plot {}

struct Dot {
    x: i64,
    y: i64,
    is_bad: bool,
    title: String,
}

/// How spans become heights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    /// In equal steps up to this.
    Even(i64),
    /// Ten times as much for each step, from and to these powers of ten.
    Tens(u32, u32),
}

impl Plot {
    /// None if there is nothing to draw.
    pub(crate) fn new(id: &'static str, title: &str, points: &[Point], now: DateTime<Utc>) -> Option<Self> {
        let (first, last) = (points.iter().map(|it| it.at).min()?, points.iter().map(|it| it.at).max()?);
        let mut spans: Vec<i64> = points.iter().map(|it| it.millis.max(0)).collect();
        spans.sort_unstable();
        let scale = Scale::of(&spans);
        let (left, width, top, height) = PLACE;
        let whole = (last - first).num_milliseconds().max(1);
        let dot = |it: &Point| Dot {
            x: left
                + (i128::from((it.at - first).num_milliseconds()) * i128::from(width) / i128::from(whole))
                    as i64,
            y: top + height - scale.height(it.millis.max(0), height),
            is_bad: it.is_bad,
            title: it.title.clone(),
        };
        let lines = scale.labels().into_iter().map(|span| {
            (top + height - scale.height(span, height), length(Duration::from_millis(span.unsigned_abs())))
        });
        Some(Self {
            id,
            title: title.to_owned(),
            words: words(&spans)?,
            dots: points.iter().map(dot).collect(),
            lines: lines.collect(),
            ends: [first, last].map(|at| Moment::new(at, now).said),
        })
    }
}

/// `median 3 ms, 95 of 100 within 41 ms, at worst 2.3 s`, of spans that are sorted.
fn words(sorted: &[i64]) -> Option<String> {
    let of = |percent: usize| {
        let place = (sorted.len() * percent).div_ceil(100).max(1) - 1;
        sorted.get(place).map(|span| length(Duration::from_millis(span.unsigned_abs())))
    };
    Some(format!("median {}, 95 of 100 within {}, at worst {}", of(50)?, of(95)?, of(100)?))
}

impl Scale {
    /// For spans that are sorted.
    fn of(sorted: &[i64]) -> Self {
        let (least, most) =
            (sorted.first().copied().unwrap_or(0).max(1), sorted.last().copied().unwrap_or(0).max(1));
        if most < least.saturating_mul(MANY_TIMES) {
            return Self::Even(most);
        }
        let low = least.unsigned_abs().ilog10();
        let high = (most.unsigned_abs() - 1).checked_ilog10().map_or(1, |high| high + 1);
        Self::Tens(low, high.max(low + 1))
    }

    /// How high a span is, of so much.
    fn height(self, span: i64, height: i64) -> i64 {
        match self {
            Self::Even(most) => (i128::from(span) * i128::from(height) / i128::from(most)) as i64,
            Self::Tens(low, high) => {
                let part = ((span.max(1) as f64).log10() - f64::from(low)) / f64::from(high - low);
                (part.clamp(0.0, 1.0) * height as f64).round() as i64
            }
        }
    }

    /// The spans that are labelled.
    fn labels(self) -> Vec<i64> {
        match self {
            Self::Even(most) => vec![0, most / 2, most],
            Self::Tens(low, high) => (low..=high).filter_map(|power| 10_i64.checked_pow(power)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(spans: &[i64]) -> Option<Plot> {
        let start: DateTime<Utc> = "2026-11-29T10:00:00Z".parse().unwrap();
        let point = |(place, span): (i64, &i64)| Point {
            at: start + chrono::TimeDelta::minutes(place),
            millis: *span,
            is_bad: *span > 1_000,
            title: format!("<{span}>"),
        };
        let points: Vec<Point> = (0..).zip(spans).map(point).collect();
        Plot::new("late", "How late they began", &points, start + chrono::TimeDelta::hours(2))
    }

    #[test]
    fn figures_are_told_in_words_and_points_lie_by_their_time() {
        let shown = plot(&[3, 1, 2, 4]).unwrap();
        assert_eq!(shown.words, "median 2 ms, 95 of 100 within 4 ms, at worst 4 ms");
        let places: Vec<(i64, i64)> = shown.dots.iter().map(|dot| (dot.x, dot.y)).collect();
        assert_eq!(places, [(64, 32), (194, 80), (324, 56), (454, 8)]);
        assert!(plot(&[]).is_none());
        let one = plot(&[0]).unwrap();
        assert_eq!(
            (one.dots[0].x, one.dots[0].y, one.words.as_str()),
            (64, 104, "median 0 ms, 95 of 100 within 0 ms, at worst 0 ms")
        );
    }

    #[test]
    fn what_is_many_times_as_much_is_drawn_by_powers_of_ten() {
        let shown = plot(&[1, 10, 100, 1_000, 10_000]).unwrap();
        let heights: Vec<i64> = shown.dots.iter().map(|dot| dot.y).collect();
        assert_eq!(heights, [104, 80, 56, 32, 8]);
        let labels: Vec<&str> = shown.lines.iter().map(|(_, label)| label.as_str()).collect();
        assert_eq!(labels, ["1 ms", "10 ms", "100 ms", "1.0 s", "10 s"]);
        let text = shown.to_string();
        assert!(text.contains("<title id=\"late-title\">How late they began</title>"), "{text}");
        assert!(text.contains("&#60;10000&#62;") && text.contains("class=\"bad\""), "{text}");
        assert_eq!(Scale::of(&[5, 19]), Scale::Even(19));
        assert_eq!(Scale::of(&[0, i64::MAX]), Scale::Tens(0, 19));
    }
}
