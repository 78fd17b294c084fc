//! Prompts: a few that come again and again, and text that nobody has seen before.

use super::Prompt;

/// Words as they are spoken, so that counting tokens is as much work as it is in life.
const WORDS: &str = "the of and to in is that for it was on are as with his they at be this have from or had by not but what all were \
    when we there can an your which their said if do will each about how up out them then she many some so these would other into has \
    more her two like him see time could no make than first been its who now people my made over did down only way find use may water \
    long little very after called just where most know customer invoice delivery refund contract warranty address account payment \
    shipping order parcel return exchange agreement statement balance subscription cancellation reservation appointment insurance \
    temperature electricity government information development understanding responsibility available international environment \
    particular important different following together something certainly however because although whether against between through \
    Please explain Describe Summarize Compare Berlin Amsterdam Tuesday September gateway provider limit budget token answer question \
    didn't it's we're shouldn't 12 2024 19.99 7 1,500 A-113 #42 user@shop (see below) \\\"quoted\\\" e.g. PDF API JSON HTTP";
/// Prompts that are known.
const KNOWN: usize = 16;

/// Makes the `messages` of requests.
pub struct Prompts {
    kind: Prompt,
    words: Vec<&'static str>,
    known: Vec<String>,
    random: fastrand::Rng,
}

impl Prompts {
    /// `number` is the connection's, so that no two of them say the same.
    pub fn new(kind: Prompt, number: usize, run: u64) -> Self {
        let words = WORDS.split_ascii_whitespace().collect();
        let mut prompts = Self { kind, words, known: Vec::new(), random: fastrand::Rng::with_seed(7) };
        if let Prompt::Known(bytes) = kind {
            prompts.known = (0..KNOWN).map(|_| prompts.text(bytes)).collect();
        }
        prompts.random = fastrand::Rng::with_seed(run ^ ((number as u64) << 32));
        prompts
    }

    fn text(&mut self, bytes: usize) -> String {
        let mut text = String::with_capacity(bytes + 32);
        self.append(bytes, &mut text);
        text
    }

    /// Writes random words until there are so many bytes more; the text may stand in a JSON string as it is.
    pub fn append(&mut self, bytes: usize, text: &mut String) {
        let end = text.len() + bytes;
        while text.len() < end {
            text.push_str(self.words[self.random.usize(0..self.words.len())]);
            text.push_str(match self.random.u8(0..16) {
                0 => ". ",
                1 => ", ",
                2 => "\\n",
                _ => " ",
            });
        }
    }

    /// Appends the next prompt.
    pub fn write(&mut self, to: &mut String) {
        match self.kind {
            Prompt::Known(_) => to.push_str(&self.known[self.random.usize(0..KNOWN)]),
            Prompt::New(bytes) => self.append(bytes, to),
        }
    }
}
