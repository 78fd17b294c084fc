//! The size of an image, read from the first bytes of its file. Nothing is decoded and nothing is fetched.

/// Width and height in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) width: u32,
    pub(crate) height: u32,
}

/// How many bytes of a file are looked at: enough to pass the metadata that cameras put before the size in a JPEG.
pub(crate) const HEADER_BYTES: usize = 48 * 1024;

/// The size of a PNG, GIF, JPEG or WebP file, from its first bytes. None for everything else, and where a side is 0.
pub(crate) fn size(file: &[u8]) -> Option<Size> {
    let size = png(file).or_else(|| gif(file)).or_else(|| jpeg(file)).or_else(|| webp(file))?;
    (size.width > 0 && size.height > 0).then_some(size)
}

/// `IHDR` is always the first chunk: two big-endian numbers after its name.
fn png(file: &[u8]) -> Option<Size> {
    let header = file.strip_prefix(b"\x89PNG\r\n\x1a\n")?;
    let ihdr = header.get(4..)?.strip_prefix(b"IHDR")?;
    Some(Size { width: be32(ihdr, 0)?, height: be32(ihdr, 4)? })
}

fn gif(file: &[u8]) -> Option<Size> {
    let screen = file.strip_prefix(b"GIF87a").or_else(|| file.strip_prefix(b"GIF89a"))?;
    Some(Size { width: le16(screen, 0)?, height: le16(screen, 2)? })
}

/// Walks the segments up to the first frame header (`SOFn`: C0 to CF but for the tables C4 and CC and the extension C8): precision, height, width.
fn jpeg(file: &[u8]) -> Option<Size> {
    let mut rest = file.strip_prefix(b"\xff\xd8")?;
    loop {
        rest = rest.strip_prefix(b"\xff")?;
        let (&marker, after) = rest.split_first()?;
        rest = match marker {
            0xff => rest,                // a fill byte: the marker is still to come
            0x01 | 0xd0..=0xd8 => after, // markers without a segment
            0xd9 | 0xda => return None,  // the picture ends, or its data begins, and no size was seen
            0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => {
                return Some(Size { height: be16(after, 3)?, width: be16(after, 5)? });
            }
            _ => after.get(be16(after, 0)?.max(2) as usize..)?,
        };
    }
}

/// The three kinds of WebP: lossy (`VP8 `, 14-bit sides), lossless (`VP8L`, 14-bit sides less one) and extended (`VP8X`, 24-bit sides less one).
fn webp(file: &[u8]) -> Option<Size> {
    let chunk = file.strip_prefix(b"RIFF")?.get(4..)?.strip_prefix(b"WEBP")?;
    let (kind, body) = (chunk.get(..4)?, chunk.get(8..)?);
    match kind {
        b"VP8 " => {
            let frame = body.get(3..)?.strip_prefix(b"\x9d\x01\x2a")?;
            Some(Size { width: le16(frame, 0)? & 0x3fff, height: le16(frame, 2)? & 0x3fff })
        }
        b"VP8L" => {
            let bits = body.strip_prefix(b"\x2f")?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))?;
            Some(Size { width: (bits & 0x3fff) + 1, height: (bits >> 14 & 0x3fff) + 1 })
        }
        b"VP8X" => {
            let side = |at: usize| Some(le16(body, at)? | u32::from(*body.get(at + 2)?) << 16);
            Some(Size { width: side(4)? + 1, height: side(7)? + 1 })
        }
        _ => None,
    }
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|four| u32::from_be_bytes(*four))
}

fn be16(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|two| u32::from(u16::from_be_bytes(*two)))
}

fn le16(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|two| u32::from(u16::from_le_bytes(*two)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_size_of_each_format() {
        let exif = [b"\xff\xd8\xff\xe1\x00\x06ABCD\xff\xff\xc4\x00\x03z".as_slice(), b"\xff\xc2\x00\x11\x08\x0b\xd0\x0f\xc0\x03"]
            .concat();
        for (name, file, width, height) in [
            ("png", b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x07\x80\0\0\x04\x38\x08\x06".to_vec(), 1920, 1080),
            ("gif", b"GIF89a\x00\x02\x01\x01\xf7".to_vec(), 512, 257),
            ("progressive jpeg behind metadata", exif, 4032, 3024),
            ("lossy webp", b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\x30\x01\x00\x9d\x01\x2a\x00\x44\x00\x03".to_vec(), 1024, 768),
            ("lossless webp", b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f\xff\xc1\x7f\x00".to_vec(), 512, 512),
            ("extended webp", b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\x10\0\0\0\xff\x07\0\xff\x0f\0".to_vec(), 2048, 4096),
        ] {
            assert_eq!(size(&file), Some(Size { width, height }), "{name}");
            for end in 0..file.len() {
                let cut = size(&file[..end]);
                assert!(cut.is_none() || cut == Some(Size { width, height }), "{name} cut at {end}");
            }
        }
    }

    #[test]
    fn other_files_have_no_size() {
        for file in [b"".as_slice(), b"%PDF-1.7", b"\xff\xd8\xff\xda\x00\x02", b"GIF89a\0\0\0\0", b"\xff\xd8\xff\xe0\x00\x00\xff"]
        {
            assert_eq!(size(file), None, "{file:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(magic in 0..4_usize, tail in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..64)) {
            let magic: &[u8] = [b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".as_slice(), b"\xff\xd8\xff", b"RIFF\0\0\0\0WEBPVP8", b"GIF87a"][magic];
            let _ = size(&[magic, &tail].concat());
        }
    }
}
