//! Rules that can be taken away, each of which the model must find missing.

/// A rule that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// Take-backs compare the token, not the attempt.
    TakeBackByToken,
    /// Extensions do not raise the generation.
    NoGenerations,
    /// A claim is taken back where a yes is read, not at the verdict.
    TakeBackWhenRead,
    /// A new connection is used while the old one may still execute.
    OldConnectionLives,
    /// A quorum's yes counts however late it is.
    NoFreshness,
    /// A quorum's yes to an extension counts however late it is.
    NoFreshnessOfExtensions,
    /// An extension is confirmed before a quorum ends as soon as the client wants.
    ToldBeforeShorter,
    /// What ends later on a master that was too slow for an extension is shortened after the answer.
    StragglersAreShortened,
    /// The freshness is doubled but not the pad.
    PadNotDoubled,
    /// Two attempts with one token make a quorum together.
    MixedQuorum,
    /// Answers count without proof.
    NoProof,
    /// Answers count under whatever roster version.
    AnyVersion,
    /// What a master is given for two attempts carries the tag of one of them.
    NobodysTagIsOneOfThem,
    /// Releases compare the token, not the attempt.
    ReleaseByToken,
    /// What a master missed of a release is delivered to the token.
    DeliverByToken,
    /// A release deletes whatever generation before it is a success.
    DeleteAnyGeneration,
    /// One deletion makes a release a success, however many masters are silent.
    OneDeletionIsEnough,
    /// One deletion makes a release a success although a quorum said no.
    ReleaseAgainstQuorum,
    /// A late copy of a granted lease stays.
    StragglersStay,
    /// A release does not look again at masters without the attempt.
    NoSecondDelivery,
    /// Copies of the present attempt stay when the quorum holds an earlier one.
    OwnCopiesStay,
    /// A release that looks again gives back whatever it finds under its token.
    LookAnew,
    /// A release counts masters that show nothing as if they had deleted the lease.
    AbsenceIsRelease,
    /// Deletions compare nothing.
    DeleteBlindly,
    /// A deletion deletes every value it is shown.
    DeleteAllShown,
    /// A deletion also deletes what too few masters hold.
    DeleteLeftovers,
    /// A deletion counts masters that show nothing as if they had deleted the lease.
    AbsenceIsDeletion,
    /// A deletion also deletes values that it is shown after its answer.
    DeleteAfterAnswer,
    /// Deliveries of a deletion hit anything that a master holds.
    DeliverBlindly,
}
