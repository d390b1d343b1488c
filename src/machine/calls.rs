//! The store calls of a machine, each declared once.

/// Declares the store calls of a machine, one entry each:
///
/// ```text
/// calls! { [P]
///     /// What it does.
///     claim = Claim {
///         "claim", asks (requests: Arc<Vec<ClaimRequest>>), keeps InFlight<P>, brings Vec<Claim>
///     } |store| store.claim(&requests);
/// }
/// ```
///
/// An entry has its name in messages, what it asks the store for, what its machine keeps of it until it has
/// ended, and what a success brings. `[P]` are the type parameters of what is kept. From the entries follow
/// `Op`, which is performed; `Asked`, with the kept values; `Answer`; and `Answered`, in which [`join`](self)
/// pairs the kept values with the answer. `Asked::claim` makes the `Op` and the `Asked` of this
/// entry, so that the two belong together.
macro_rules! calls {
    ([$($param:ident),*] $(
        $(#[$doc:meta])*
        $ask:ident = $Call:ident {
            $name:expr, asks ($($arg:ident: $type:ty),*), keeps $Kept:ty, brings $Brought:ty
        } |$store:ident| $perform:expr;
    )*) => {
        /// A call, as it is performed.
        #[derive(Clone)]
        #[allow(clippy::large_enum_variant, reason = "there is one at a time")]
        pub(crate) enum Op { $($(#[$doc])* $Call($($type),*),)* }

        /// The values that the machine keeps of the call under way.
        #[allow(clippy::large_enum_variant, reason = "there is one at a time")]
        pub(crate) enum Asked<$($param),*> { $($Call($Kept),)* }

        /// The answer of a call.
        #[allow(clippy::large_enum_variant, reason = "there is one at a time")]
        pub(crate) enum Answer { $($Call($Brought),)* }

        /// The values kept of a call, with its answer.
        #[allow(clippy::large_enum_variant, reason = "there is one at a time")]
        pub(super) enum Answered<$($param),*> { $($Call($Kept, $Brought),)* }

        impl $crate::machine::Operation for Op {
            type Answer = Answer;

            fn name(&self) -> &'static str {
                match self { $(Self::$Call(..) => $name,)* }
            }

            fn perform(self, store: &dyn $crate::store::Store) -> Result<Answer, $crate::domain::Error> {
                match self {
                    $(Self::$Call($($arg),*) => { let $store = store; ($perform).map(Answer::$Call) })*
                }
            }
        }

        impl<$($param),*> Asked<$($param),*> {
            $(
                $(#[$doc])*
                pub(super) fn $ask($($arg: $type,)* kept: $Kept) -> (Op, Self) {
                    (Op::$Call($($arg),*), Self::$Call(kept))
                }
            )*

            /// The call's name in messages.
            pub(super) fn name(&self) -> &'static str {
                match self { $(Self::$Call(..) => $name,)* }
            }
        }

        /// Puts together what was kept of a call and what it brought, or tells why it failed.
        #[allow(clippy::result_large_err, reason = "there is one at a time")]
        pub(super) fn join<$($param),*>(
            asked: Asked<$($param),*>,
            answer: Result<Answer, $crate::domain::Error>,
        ) -> Result<Answered<$($param),*>, (Asked<$($param),*>, $crate::domain::Error)> {
            match (asked, answer) {
                $((Asked::$Call(kept), Ok(Answer::$Call(brought))) => Ok(Answered::$Call(kept, brought)),)*
                (asked, Ok(_)) => {
                    let message = "the answer is another call's";
                    Err((asked, $crate::domain::Error::new($crate::domain::ErrorKind::System, message)))
                }
                (asked, Err(error)) => Err((asked, error)),
            }
        }
    };
}

pub(crate) use calls;
