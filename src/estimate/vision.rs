//! What an image costs, by model: tiles of 512 pixels, patches of 32, or Anthropic's patches of 28.
//!
//! Published rules and measurements disagree for some models, so each rule gives the best estimate and a bound. An image of unknown size (a remote
//! address, a file id, a format not recognised) costs the most that the rule allows.

use super::{image::Size, tally::Cost};

/// The `detail` a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    Auto,
    Low,
    High,
    Original,
}

impl Detail {
    /// From the request's word; what is not known is `auto`, as with the provider.
    pub(crate) fn of(word: &str) -> Self {
        match word {
            "low" => Self::Low,
            "high" => Self::High,
            "original" => Self::Original,
            _ => Self::Auto,
        }
    }
}

/// How a model turns pixels into tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ImageRule {
    /// A base and an amount for each 512-pixel tile, after fitting into 2048 x 2048 and the short side to 768.
    Tiles { base: u64, tile: u64 },
    /// 32-pixel patches.
    Patches(&'static Patches),
    /// Anthropic: 28-pixel patches, after fitting the long edge and the number of tokens.
    Claude { edge: u32, tokens: u64 },
    /// Gemini: 258 for each 768-pixel tile, or (version 3) about 1,120 for any image.
    Gemini,
    /// A model of which nothing is known: GPT-4o's tiles, and unresized 28-pixel patches (the costliest of the open models) as the bound.
    Unknown,
}

/// The parameters of a model with 32-pixel patches.
#[derive(Debug)]
pub(crate) struct Patches {
    pub(crate) low: Fit,
    pub(crate) high: Fit,
    pub(crate) original: Fit,
    /// What `auto` means.
    pub(crate) auto: Detail,
    /// Tokens per thousand patches.
    pub(crate) permille: u64,
    /// The most generous resizing that anybody reports for this model, for the bound.
    pub(crate) bound: Fit,
}

/// How far an image is shrunk before its patches are counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fit {
    pub(crate) max_side: Option<u32>,
    pub(crate) budget: Option<u64>,
}

impl Fit {
    pub(crate) const fn new(max_side: u32, budget: u64) -> Self {
        Self { max_side: Some(max_side), budget: Some(budget) }
    }
    pub(crate) const fn side(max_side: u32) -> Self {
        Self { max_side: Some(max_side), budget: None }
    }
    pub(crate) const fn budget(budget: u64) -> Self {
        Self { max_side: None, budget: Some(budget) }
    }
    pub(crate) const NONE: Self = Self { max_side: None, budget: None };
}

/// The largest image anyone sends where nothing is resized: a 48-megapixel camera's 8192 x 6144. The bound for unknown sizes there.
const LARGEST_PATCHES: u64 = 256 * 192;
/// The estimate for the same: the budget of the models before.
const USUAL_PATCHES: u64 = 10_000;
/// Bound for an image given to an unknown model; the largest budget among open vision models.
const UNKNOWN_BOUND: u64 = 16_384;

impl ImageRule {
    /// The cost of an image.
    pub(crate) fn cost(self, size: Option<Size>, detail: Detail) -> Cost {
        match self {
            Self::Tiles { base, tile } => Cost::exact(tiles(base, tile, size, detail)),
            Self::Patches(rule) => rule.cost(size, detail),
            Self::Claude { edge, tokens } => Cost::exact(size.map_or(tokens, |size| claude(size, edge, tokens))),
            Self::Gemini => {
                let tiles = size.map_or(16, |size| {
                    let small = size.width.max(size.height) <= 384;
                    if small { 1 } else { grid(size, 768) }
                });
                let bound = (258 * tiles).max(1_120);
                Cost { best: size.map_or(1_120, |_| 258 * tiles), upper: bound }
            }
            Self::Unknown => {
                let best = tiles(85, 170, size, detail);
                Cost { best, upper: best.max(size.map_or(UNKNOWN_BOUND, |size| grid(size, 28).min(UNKNOWN_BOUND))) }
            }
        }
    }
}

fn tiles(base: u64, tile: u64, size: Option<Size>, detail: Detail) -> u64 {
    if detail == Detail::Low {
        return base;
    }
    let Some(size) = size else { return base + 8 * tile }; // 2048 x 768
    let (w, h) = (f64::from(size.width), f64::from(size.height));
    let scale = (2048.0 / w.max(h)).min(768.0 / w.min(h)).min(1.0);
    base + grid(Size { width: floor(w * scale), height: floor(h * scale) }, 512) * tile
}

impl Patches {
    fn cost(&self, size: Option<Size>, detail: Detail) -> Cost {
        let detail = if detail == Detail::Auto { self.auto } else { detail };
        let fit = match detail {
            Detail::Low => self.low,
            Detail::Original => self.original,
            Detail::High | Detail::Auto => self.high,
        };
        let best = self.tokens(fit.patches(size, USUAL_PATCHES));
        let bound = self.tokens(fit.patches(size, LARGEST_PATCHES)).max(self.tokens(self.bound.patches(size, 0)));
        Cost { best, upper: bound.max(best) }
    }

    fn tokens(&self, patches: u64) -> u64 {
        patches.saturating_mul(self.permille).div_ceil(1_000)
    }
}

impl Fit {
    /// The number of patches after shrinking; for an unknown size the most there can be, `unlimited` where there is no limit.
    fn patches(self, size: Option<Size>, unlimited: u64) -> u64 {
        let Some(size) = size else {
            let by_side = self.max_side.map(|side| u64::from(side.div_ceil(32)).pow(2));
            return [by_side, self.budget].into_iter().flatten().min().unwrap_or(unlimited);
        };
        let (mut w, mut h) = (f64::from(size.width), f64::from(size.height));
        if let Some(side) = self.max_side.map(f64::from)
            && w.max(h) > side
        {
            let scale = side / w.max(h);
            (w, h) = ((w * scale).round(), (h * scale).round());
        }
        let patches = |w: f64, h: f64| grid(Size { width: floor(w), height: floor(h) }, 32);
        let unshrunk = patches(w, h);
        match self.budget {
            Some(budget) if unshrunk > budget => {
                // The provider's formula: shrink to the budget's area, then a little more so that one side is whole patches.
                let mut scale = (32.0 * 32.0 * budget as f64 / (w * h)).sqrt();
                let (across, down) = (w * scale / 32.0, h * scale / 32.0);
                if across < 1.0 || down < 1.0 {
                    return budget; // thinner than a patch: the formula has no answer
                }
                scale *= (across.floor() / across).min(down.floor() / down);
                patches(w * scale, h * scale).clamp(1, budget)
            }
            _ => unshrunk,
        }
    }
}

/// The largest size of the same shape with a long edge of at most `edge` and at most `tokens` patches.
fn claude(size: Size, edge: u32, tokens: u64) -> u64 {
    let (long, short) = (size.width.max(size.height), size.width.min(size.height));
    let ratio = f64::from(long) / f64::from(short);
    (1..=long.min(edge))
        .rev()
        .map(|long| {
            let short = (f64::from(long) / ratio).round().max(1.0);
            grid(Size { width: long, height: floor(short) }, 28)
        })
        .find(|count| *count <= tokens)
        .unwrap_or(tokens)
}

/// How many cells of `cell` pixels cover the image.
fn grid(size: Size, cell: u32) -> u64 {
    u64::from(size.width.div_ceil(cell).max(1)) * u64::from(size.height.div_ceil(cell).max(1))
}

/// Pixels are whole; the float is between 0 and 2^32, as the sides it comes from.
fn floor(side: f64) -> u32 {
    side as u32
}

#[cfg(test)]
mod tests {
    use super::super::family::Family;
    use super::*;
    use crate::wire::Api;

    fn best(model: &str, size: Option<(u32, u32)>, detail: Detail) -> u64 {
        let size = size.map(|(width, height)| Size { width, height });
        Family::of(model, Api::Chat).image.cost(size, detail).best
    }

    #[test]
    fn golden_vectors() {
        use Detail::{Auto, High};
        let models = [
            ("gpt-4o", High),
            ("gpt-4o-mini", High),
            ("gpt-5", High),
            ("o3", Auto),
            ("gpt-4.1-mini", Auto),
            ("gpt-5.4", High),
            ("gpt-5.5", Auto),
            ("gpt-6", Auto),
            ("claude-sonnet-4-5", Auto),
            ("claude-opus-4-7", Auto),
        ];
        for (size, expected) in [
            ((256, 256), [255, 8500, 210, 225, 104, 77, 77, 77, 100, 100]),
            ((512, 512), [255, 8500, 210, 225, 415, 308, 308, 308, 361, 361]),
            ((1024, 1024), [765, 25501, 630, 675, 1659, 1229, 1229, 1229, 1369, 1369]),
            ((1024, 768), [765, 25501, 630, 675, 1245, 922, 922, 922, 1036, 1036]),
            ((1920, 1080), [1105, 36835, 910, 975, 2443, 2448, 2448, 2448, 1560, 2691]),
            ((2048, 4096), [1105, 36835, 910, 975, 2362, 2458, 9831, 9831, 1568, 4232]),
            ((4032, 3024), [765, 25501, 630, 675, 2353, 2942, 11868, 14364, 1564, 4740]),
        ] {
            let got = models.map(|(model, detail)| best(model, Some(size), detail));
            assert_eq!(got, expected, "{size:?}");
        }
    }

    #[test]
    fn low_detail_is_the_base_or_a_small_image() {
        for (model, tokens) in [("gpt-4o", 85), ("gpt-4o-mini", 2833), ("o1", 75), ("computer-use-preview", 65), ("gpt-5.5", 308)]
        {
            assert_eq!(best(model, Some((4032, 4032)), Detail::Low), tokens, "{model}");
        }
    }

    #[test]
    fn an_unknown_size_costs_the_most() {
        for (model, tokens) in
            [("gpt-4o", 1_445), ("claude-sonnet-4-5", 1_568), ("claude-opus-5", 4_784), ("gpt-5.4", 3_000), ("m-big", 1_445)]
        {
            assert_eq!(best(model, None, Detail::Auto), tokens, "{model}");
        }
    }

    #[test]
    fn any_size_costs_something_and_no_more_than_the_bound() {
        let sides = [1, 31, 33, 767, 2_049, 40_000, u32::MAX];
        for model in ["gpt-4o", "gpt-4.1-nano", "gpt-5.4-mini", "gpt-5.5", "gpt-6", "claude-opus-5", "gemini-2.5-pro", "m-big"] {
            for (width, height) in sides.into_iter().flat_map(|w| sides.map(|h| (w, h))) {
                for detail in [Detail::Auto, Detail::Low, Detail::High, Detail::Original] {
                    let cost = Family::of(model, Api::Chat).image.cost(Some(Size { width, height }), detail);
                    assert!(0 < cost.best && cost.best <= cost.upper, "{model} {width}x{height} {detail:?}: {cost:?}");
                }
            }
        }
    }
}
