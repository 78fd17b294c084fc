//! Images, documents, sound and video inside a request. Base64 is never counted as text, and nothing is fetched.

use base64::{
    Engine as _,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use memchr::memmem;

use super::{
    image::{self, Size},
    tally::{Cost, Tally},
    vision::Detail,
};

/// Clients pad or do not, and some leave stray bits in a cut prefix.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true).with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A page of a document: its text (Anthropic states 1,500 to 3,000 tokens a dense page, OpenAI less) ...
const PAGE_TEXT: u64 = 750;
/// ... at most ...
const PAGE_TEXT_BOUND: u64 = 3_000;
/// ... and its picture, as providers render a letter page.
const PAGE_SIZE: Size = Size { width: 1_224, height: 1_584 };
/// Bytes of a PDF page, where the pages cannot be counted because the file's index is compressed.
const PAGE_BYTES: u64 = 50_000;
/// Least tokens for any sound, whose length is unknown.
const LEAST_AUDIO: u64 = 300;
/// Bytes of compressed sound a second: 16 KB as usual, 0.75 KB as the leanest speech codec in use.
const AUDIO_BYTES_PER_SECOND: (u64, u64) = (16_000, 750);
/// The same for video, at about 1 Mbit/s and at 100 kbit/s, and its tokens a second.
const VIDEO_BYTES_PER_SECOND: (u64, u64) = (125_000, 12_500);
const VIDEO_TOKENS_PER_SECOND: u64 = 263;

/// What is inside a `data:` URL with base64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Data<'a> {
    /// The media type, without parameters; "" where none is given.
    pub(crate) media_type: &'a str,
    /// The content, still in base64.
    pub(crate) base64: &'a str,
}

impl<'a> Data<'a> {
    /// Takes a `data:` URL apart; None for any other address.
    pub(crate) fn from_url(url: &'a str) -> Option<Self> {
        let (scheme, rest) = url.split_at_checked(5)?;
        let (head, base64) = rest.split_once(',')?;
        let media_type = head.split(';').next().unwrap_or_default();
        scheme.eq_ignore_ascii_case("data:").then_some(Self { media_type, base64 })
    }

    /// Bytes after decoding, rounded up.
    fn bytes(self) -> u64 {
        (self.base64.len() as u64).div_ceil(4) * 3
    }

    /// The first bytes of the content, at most what [`image::HEADER_BYTES`] allows. Empty where it is not base64.
    fn head(self) -> Vec<u8> {
        decode(self.base64, 0, image::HEADER_BYTES / 3 * 4)
    }
}

/// Decodes `chars` characters of base64 from `at` on.
fn decode(base64: &str, at: usize, chars: usize) -> Vec<u8> {
    let bytes = base64.as_bytes();
    let part = &bytes[at.min(bytes.len())..at.saturating_add(chars).min(bytes.len())];
    LENIENT.decode(part).unwrap_or_default()
}

impl Tally {
    /// An image given by address: a `data:` URL is measured, any other costs the most an image can.
    pub(crate) fn image_url(&mut self, url: &str, detail: Detail) {
        self.image(Data::from_url(url), detail);
    }

    /// An image, or None where it is behind an address or an id.
    pub(crate) fn image(&mut self, data: Option<Data<'_>>, detail: Detail) {
        let size = data.and_then(|data| image::size(&data.head()));
        self.fixed(self.family.image.cost(size, detail));
    }

    /// A document of which the content is here.
    pub(crate) fn document(&mut self, data: Data<'_>, name: &str) {
        let is = |kind: &str| data.media_type.eq_ignore_ascii_case(kind);
        if data.media_type.starts_with("image/") {
            self.image(Some(data), Detail::Auto);
        } else if data.media_type.starts_with("audio/") {
            self.audio(data);
        } else if data.media_type.starts_with("video/") {
            self.video(Some(data));
        } else if is("application/pdf") || data.base64.starts_with("JVBERi") || name.to_ascii_lowercase().ends_with(".pdf") {
            self.pdf(data);
        } else {
            // Text, source code, spreadsheets: four bytes a token; a token a byte as the bound.
            self.fixed(Cost { best: data.bytes().div_ceil(4), upper: data.bytes() });
        }
    }

    /// A PDF costs the text and a picture of each page.
    fn pdf(&mut self, data: Data<'_>) {
        let pages = pages(data);
        let picture = self.family.image.cost(Some(PAGE_SIZE), Detail::High);
        let upper = pages.saturating_mul(picture.upper + PAGE_TEXT_BOUND);
        self.fixed(Cost { best: pages.saturating_mul(picture.best + PAGE_TEXT), upper: upper.max(data.bytes()) });
    }

    /// Sound, by its length where a WAV header states it, else by its size.
    pub(crate) fn audio(&mut self, data: Data<'_>) {
        let tokens = |millis: u64| (millis.saturating_mul(self.family.audio_per_10s)).div_ceil(10_000);
        let cost = match wav_millis(data) {
            Some(millis) => Cost { best: tokens(millis).max(1), upper: tokens(millis).saturating_mul(2).max(LEAST_AUDIO) },
            None => {
                let by_rate = |rate: u64| tokens(data.bytes() * 1_000 / rate).max(LEAST_AUDIO);
                let (usual, least) = AUDIO_BYTES_PER_SECOND;
                Cost { best: by_rate(usual), upper: by_rate(least) }
            }
        };
        self.fixed(cost);
    }

    /// Video, by its size; behind an address it is unseen.
    pub(crate) fn video(&mut self, data: Option<Data<'_>>) {
        let Some(data) = data else { return self.unseen() };
        let by_rate = |rate: u64| (data.bytes() / rate + 1).saturating_mul(VIDEO_TOKENS_PER_SECOND);
        let (usual, least) = VIDEO_BYTES_PER_SECOND;
        self.fixed(Cost { best: by_rate(usual), upper: by_rate(least) });
    }

    /// Text that the provider sealed (earlier reasoning, search results): about four characters of the original a token, and never more tokens than
    /// there are characters here.
    pub(crate) fn sealed(&mut self, base64: &str) {
        let chars = base64.len() as u64;
        self.scaled((chars * 3).div_ceil(16), chars);
    }
}

/// The pages of a PDF: its page objects where they can be seen, else by size. At least 1.
///
/// A file may pack page objects into compressed streams; it is then judged by size too. So a file made of hundreds of empty pages is underestimated: knowing
/// better would take a PDF parser in front of everybody's traffic.
fn pages(data: Data<'_>) -> u64 {
    const WINDOW: usize = 64 * 1024; // characters, a multiple of 4
    const OVERLAP: usize = 16; // bytes, longer than each marker
    let (mut seen, mut packed, mut window) = (0, false, Vec::new());
    for at in (0..data.base64.len()).step_by(WINDOW) {
        window.extend_from_slice(&decode(data.base64, at, WINDOW));
        let last = at + WINDOW >= data.base64.len();
        let done = if last { window.len() } else { window.len().saturating_sub(OVERLAP) };
        for marker in [b"/Type/Page".as_slice(), b"/Type /Page"] {
            seen += memmem::find_iter(&window, marker)
                .filter(|start| *start < done && !window.get(start + marker.len()).is_some_and(u8::is_ascii_alphabetic))
                .count() as u64;
        }
        packed |= memmem::find(&window, b"/ObjStm").is_some();
        window.drain(..done);
    }
    let by_size = data.bytes().div_ceil(PAGE_BYTES).max(1);
    if packed || seen == 0 { seen.max(by_size) } else { seen }
}

/// The length of an uncompressed WAV file in milliseconds: the size of the content by the rate that its header gives to a player (sample rate, channels and
/// bits; the byte rate beside them is ignored by players and so no witness). None for compressed sound and for rates nobody records at.
fn wav_millis(data: Data<'_>) -> Option<u64> {
    let head = decode(data.base64, 0, 64);
    let two = |at: usize| Some(u64::from(u16::from_le_bytes(*head.get(at..)?.first_chunk()?)));
    let is_wav = head.starts_with(b"RIFF") && head.get(8..16)? == b"WAVEfmt " && matches!(two(20)?, 1 | 3);
    let (channels, samples, bits) = (two(22)?, two(24)? | two(26)? << 16, two(34)?);
    let rate = channels * samples * bits / 8;
    (is_wav && (8_000..=1_536_000).contains(&rate)).then(|| data.bytes() * 1_000 / rate)
}

#[cfg(test)]
mod tests {
    use super::super::family::Family;
    use super::super::tally::PieceCount;
    use super::*;
    use crate::wire::Api;

    fn count(model: &str, with: impl FnOnce(&mut Tally)) -> PieceCount {
        let mut tally = Tally::new(Family::of(model, Api::Chat));
        with(&mut tally);
        tally.count
    }

    fn base64(bytes: &[u8]) -> String {
        base64::engine::general_purpose::STANDARD.encode(bytes)
    }

    fn png(width: u32, height: u32, bytes: usize) -> String {
        let mut file = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
        file.extend(width.to_be_bytes());
        file.extend(height.to_be_bytes());
        file.resize(bytes, 0x5a);
        base64(&file)
    }

    #[test]
    fn an_image_is_measured_by_its_header_whatever_its_size_in_bytes() {
        for bytes in [24, 75_000, 3_000_000] {
            let url = format!("data:image/png;base64,{}", png(1920, 1080, bytes));
            let got = count("gpt-4o", |tally| tally.image_url(&url, Detail::Auto));
            assert_eq!((got.tokens, got.fixed, got.upper), (0, 1_105, 1_105), "{bytes} bytes");
        }
    }

    #[test]
    fn what_cannot_be_measured_costs_the_most() {
        let no_base64 = "data:image/png;base64,%%%%";
        for url in ["https://example.com/cat.png", "", "data:", "data:image/png;base64,", no_base64, "dätä:x,y"] {
            assert_eq!(count("gpt-4o", |tally| tally.image_url(url, Detail::Auto)).fixed, 1_445, "{url}");
        }
    }

    #[test]
    fn a_pdf_costs_its_pages() {
        let page = b"<</Type /Page>>".repeat(12);
        let mut file = [b"%PDF-1.4 <</Type /Pages /Count 12>>".as_slice(), &page].concat();
        file.resize(80_000, b' '); // more than one window
        file.extend_from_slice(b"<</Type/Page/Parent 1 0 R>><</Type/Pages>>");
        let encoded = base64(&file);
        assert_eq!(pages(Data { media_type: "application/pdf", base64: &encoded }), 13);
        let got = count("gpt-4o", |tally| tally.document(Data { media_type: "application/pdf", base64: &encoded }, ""));
        assert_eq!(got.fixed, 13 * (765 + 750));
        assert!(got.upper >= 13 * (765 + 3_000));
    }

    #[test]
    fn a_page_object_across_two_windows_is_found_once() {
        for shift in 0..24 {
            let mut file = vec![b' '; 48 * 1024 - shift];
            file.extend_from_slice(b"<</Type/Page>>");
            file.resize(60_000, b' ');
            assert_eq!(pages(Data { media_type: "", base64: &base64(&file) }), 1, "{shift}");
        }
    }

    #[test]
    fn a_pdf_without_visible_pages_is_judged_by_size() {
        let encoded = base64(&vec![7; 75_000]);
        assert_eq!(pages(Data { media_type: "", base64: &encoded }), 2);
        assert_eq!(pages(Data { media_type: "", base64: "" }), 1);
        let mut packed = b"<</Type/Page>><</Type/ObjStm>>".to_vec();
        packed.resize(150_000, 7);
        assert_eq!(pages(Data { media_type: "", base64: &base64(&packed) }), 3, "page objects may hide in streams");
    }

    #[test]
    fn sound_is_counted_by_its_length() {
        // PCM, one channel, 24,000 samples a second of 16 bits; the stated byte rate lies.
        let mut wav = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0".to_vec();
        wav.extend(24_000_u32.to_le_bytes());
        wav.extend(u32::MAX.to_le_bytes());
        wav.extend([2, 0, 16, 0]);
        wav.resize(48_000 * 60, 0);
        let encoded = base64(&wav);
        let got = count("gpt-4o", |tally| tally.audio(Data { media_type: "", base64: &encoded }));
        assert_eq!(got.fixed, 600, "a minute is 600 tokens");
        let mp3 = base64(&vec![1; 75_000]);
        let got = count("gpt-4o", |tally| tally.audio(Data { media_type: "", base64: &mp3 }));
        assert_eq!(got.fixed, 300, "the least for an unknown length");
        assert!(got.upper >= 1_000, "100 seconds of a lean codec");
    }

    #[test]
    fn other_files_are_judged_by_size_and_never_free() {
        let encoded = base64(&vec![b'x'; 6_000]);
        let got = count("gpt-4o", |tally| tally.document(Data { media_type: "text/csv", base64: &encoded }, "a.csv"));
        assert_eq!((got.fixed, got.upper), (1_500, 6_000));
        let image = png(512, 512, 1_000);
        let got = count("gpt-4o", |tally| tally.document(Data { media_type: "image/png", base64: &image }, ""));
        assert_eq!(got.fixed, 255);
    }
}
