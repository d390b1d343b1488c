//! A line of ids or instants in stretches, from one of its ends on.

/// The stretches between `from` and `until` (not included): short ones first, as most lists are full soon.
pub(super) struct Stretches {
    from: i64,
    until: i64,
    /// From the lowest on; otherwise from the highest.
    rising: bool,
    length: i64,
    longest: i64,
}

impl Stretches {
    pub(super) fn new((from, until): (i64, i64), rising: bool, (length, longest): (i64, i64)) -> Self {
        Self { from, until, rising, length, longest }
    }

    /// What is left of the line.
    pub(super) fn rest(&self) -> (i64, i64) {
        (self.from, self.until)
    }

    /// Goes on at the next value that there is on the line; none: it ends.
    pub(super) fn skip_to(&mut self, next: Option<i64>) {
        match next {
            None => self.from = self.until,
            Some(next) if self.rising => self.from = self.from.max(next),
            Some(next) => self.until = self.until.min(next.saturating_add(1)),
        }
    }
}

impl Iterator for Stretches {
    type Item = (i64, i64);

    fn next(&mut self) -> Option<(i64, i64)> {
        /// Each is so many times as long as the one before.
        const GROWTH: i64 = 4;
        if self.from >= self.until {
            return None;
        }
        let stretch = if self.rising {
            let end = self.from.saturating_add(self.length).min(self.until);
            (std::mem::replace(&mut self.from, end), end)
        } else {
            let end = self.until.saturating_sub(self.length).max(self.from);
            (end, std::mem::replace(&mut self.until, end))
        };
        self.length = self.length.saturating_mul(GROWTH).min(self.longest);
        Some(stretch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(range: (i64, i64), rising: bool) -> Vec<(i64, i64)> {
        Stretches::new(range, rising, (10, 100)).collect()
    }

    #[test]
    fn stretches_grow_up_to_the_longest_and_leave_nothing_out() {
        assert_eq!(all((0, 220), true), [(0, 10), (10, 50), (50, 150), (150, 220)]);
        assert_eq!(all((0, 220), false), [(210, 220), (170, 210), (70, 170), (0, 70)]);
        assert_eq!(all((5, 5), true), []);
        assert_eq!(all((5, 3), false), []);
    }

    #[test]
    fn where_nothing_is_they_go_on_at_the_next() {
        let mut falling = Stretches::new((0, 1_000), false, (10, 100));
        assert_eq!(falling.next(), Some((990, 1_000)));
        falling.skip_to(Some(500));
        assert_eq!((falling.next(), falling.rest()), (Some((461, 501)), (0, 461)));
        falling.skip_to(None);
        assert_eq!(falling.next(), None);
        let mut rising = Stretches::new((0, 1_000), true, (10, 100));
        rising.skip_to(Some(500));
        assert_eq!(rising.next(), Some((500, 510)));
    }
}
