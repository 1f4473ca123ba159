//! Minimization of a sequence that ends in a difference.

use crate::allowed::Allowed;
use crate::sides::{Difference, Sides};
use crate::step::Step;

/// Removes steps, words and script lines for as long as some difference remains.
pub(crate) async fn shrink(
    sides: &Sides,
    steps: Vec<Step>,
    difference: Difference,
    allowed: &Allowed,
) -> (Vec<Step>, Difference) {
    let mut shrinking = Shrinking { sides, allowed, steps, difference, runs: 0 };
    shrinking.steps.truncate(shrinking.difference.at + 1);
    loop {
        let before = shrinking.size();
        shrinking.leave_out_steps().await;
        shrinking.leave_out_words().await;
        shrinking.leave_out_lines().await;
        shrinking.lower_names().await;
        if shrinking.size() == before || shrinking.runs >= MOST_RUNS {
            return (shrinking.steps, shrinking.difference);
        }
    }
}

const MOST_RUNS: usize = 600;

struct Shrinking<'a> {
    sides: &'a Sides,
    allowed: &'a Allowed,
    steps: Vec<Step>,
    difference: Difference,
    runs: usize,
}

impl Shrinking<'_> {
    fn size(&self) -> usize {
        self.steps.iter().map(|step| 1 + step.words.concat().len() + step.words.len()).sum()
    }

    /// Removes steps by delta debugging: first halves, finally single steps, starting from the end.
    async fn leave_out_steps(&mut self) {
        let mut width = self.steps.len().div_ceil(2).max(1);
        loop {
            let mut end = self.steps.len();
            while end > 0 {
                let start = end.saturating_sub(width);
                let mut fewer = self.steps.clone();
                fewer.drain(start..end);
                self.try_with(fewer).await;
                end = start.min(self.steps.len());
            }
            if width == 1 {
                return;
            }
            width /= 2;
        }
    }

    async fn leave_out_words(&mut self) {
        for at in (0..self.steps.len()).rev() {
            let words = self.steps.get(at).map_or(0, |step| step.words.len());
            for word in (1..words).rev() {
                let mut fewer = self.steps.clone();
                let Some(step) = fewer.get_mut(at).filter(|step| word < step.words.len()) else {
                    continue;
                };
                step.words.remove(word);
                self.try_with(fewer).await;
            }
        }
    }

    /// Sends every command as an array and every name in lower case.
    async fn lower_names(&mut self) {
        let mut plain = self.steps.clone();
        for step in &mut plain {
            step.inline = false;
            step.words.iter_mut().take(2).for_each(|word| word.make_ascii_lowercase());
        }
        self.try_with(plain).await;
    }

    async fn leave_out_lines(&mut self) {
        for at in (0..self.steps.len()).rev() {
            let lines = self.script_lines(at);
            for line in (0..lines).rev() {
                let mut fewer = self.steps.clone();
                let Some(script) = fewer.get_mut(at).and_then(|step| step.words.get_mut(1)) else {
                    continue;
                };
                let mut kept: Vec<_> = script.split(|byte| *byte == b'\n').collect();
                if line < kept.len() {
                    kept.remove(line);
                    *script = kept.join(&b'\n');
                    self.try_with(fewer).await;
                }
            }
        }
    }

    fn script_lines(&self, at: usize) -> usize {
        let script = self.steps.get(at).filter(|step| step.name().starts_with("eval"));
        let text = script.and_then(|step| step.words.get(1));
        text.map_or(0, |text| text.split(|byte| *byte == b'\n').count())
    }

    async fn try_with(&mut self, fewer: Vec<Step>) {
        if fewer.is_empty() || self.runs >= MOST_RUNS {
            return;
        }
        self.runs += 1;
        if let Some(difference) = self.sides.compare(&fewer, self.allowed).await {
            self.steps = fewer;
            self.steps.truncate(difference.at + 1);
            self.difference = difference;
        }
    }
}
