//! The clocks of a process, each of which may be wrong or stand still.

use crate::domain::{Boot, Millis, Timestamp};
use crate::time::{Micros, Now};

#[derive(Clone, Copy)]
pub(super) struct Clocks {
    /// How far the host's time and its wall clock are ahead of true time.
    pub skew: Millis,
    /// How much time the boot clock has not counted.
    pub lag: Millis,
    /// Database time minus the host's, as far as the process knows.
    pub offset: Micros,
    /// A sabotage: nobody notices that the wall clock went on while the boot clock stood.
    pub boot_alone: bool,
}

impl Clocks {
    pub(super) fn now(self, time: Millis) -> Now {
        let Self { skew, lag, offset, boot_alone } = self;
        let boot = time - lag;
        let apart = if boot_alone { 0 } else { time + skew - boot };
        Now {
            db: Timestamp::at((Micros::of_millis(boot + skew) + offset).millis()),
            boot: Boot::at(boot),
            apart,
        }
    }
}
