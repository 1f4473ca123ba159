//! Rules that can be removed. The model must notice each removal.

/// A missing rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// Take-backs compare the token, not the attempt.
    TakeBackByToken,
    /// Extensions do not raise the generation.
    NoGenerations,
    /// A claim is taken back as soon as a yes is read, not at the verdict.
    TakeBackWhenRead,
    /// A new connection is used while the old one may still execute requests.
    OldConnectionLives,
    /// A quorum's yes counts however late it is.
    NoFreshness,
    /// A quorum's yes to an extension counts however late it is.
    NoFreshnessOfExtensions,
    /// An extension is confirmed before a quorum's copies end as early as the client asked.
    ToldBeforeShorter,
    /// A copy that ends later, on a master too slow for an extension, is shortened after the
    /// answer.
    StragglersAreShortened,
    /// The freshness is doubled but not the pad.
    PadNotDoubled,
    /// Two attempts with one token make a quorum together.
    MixedQuorum,
    /// Answers count without proof.
    NoProof,
    /// Answers count under any roster version.
    AnyVersion,
    /// Operations go on with the answers of masters that have gone out since.
    GoneStillCount,
    /// A master that receives a merger of two attempts gets the tag of one of them.
    NobodysTagIsOneOfThem,
    /// Releases compare the token, not the attempt.
    ReleaseByToken,
    /// A delivery of a missed release compares the token.
    DeliverByToken,
    /// A release or deletion deletes any generation of the attempt, even before it is a success.
    DeleteAnyGeneration,
    /// One deletion makes a release a success, however many masters are silent.
    OneDeletionIsEnough,
    /// One deletion makes a release a success although a quorum said no.
    ReleaseAgainstQuorum,
    /// A late copy of a granted lease stays.
    StragglersStay,
    /// A release does not check again the masters that lacked the attempt.
    NoSecondDelivery,
    /// Copies of the current attempt stay when the quorum holds an earlier one.
    OwnCopiesStay,
    /// A release that checks again deletes anything it finds under its token.
    LookAnew,
    /// A release counts masters that show nothing as if they had deleted the lease.
    AbsenceIsRelease,
    /// Deletions compare nothing.
    DeleteBlindly,
    /// A deletion deletes every value it is shown.
    DeleteAllShown,
    /// A deletion also deletes values that too few masters hold.
    DeleteLeftovers,
    /// A deletion counts masters that show nothing as if they had deleted the lease.
    AbsenceIsDeletion,
    /// A deletion also deletes values shown after its answer.
    DeleteAfterAnswer,
    /// Deliveries of a deletion hit any value on a master.
    DeliverBlindly,
}
