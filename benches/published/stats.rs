//! Medians of figures, and of ratios between figures from the same round.

/// Returns the middle value, or the upper one of two.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Returns the median of one figure over the rounds.
pub(crate) fn median_of<T>(runs: &[T], figure: impl Fn(&T) -> f64) -> f64 {
    median(runs.iter().map(figure).collect())
}

/// Returns a figure's ratio to the reference, taken per round: the median and, in brackets, the extremes.
pub(crate) fn ratio<T>(runs: &[T], reference: &[T], figure: impl Fn(&T) -> f64) -> String {
    let mut ratios: Vec<f64> = runs
        .iter()
        .zip(reference)
        .map(|(run, reference)| figure(run) / figure(reference))
        .collect();
    ratios.sort_by(f64::total_cmp);
    match ratios.as_slice() {
        [] => "-".into(),
        [least, .., most] if least == most => format!("{least:.2}"),
        [one] => format!("{one:.2}"),
        [least, .., most] => format!("**{:.2}** ({least:.2}–{most:.2})", median(ratios.clone())),
    }
}
