//! The four shapes of a plain prompt: text, texts, token numbers, lists of token numbers.

use super::draft::Draft;
use super::error::BodyError;
use super::{MAX_SEGMENTS, SegmentKind};
use crate::wire::cursor::{Cursor, Kind};

/// Reads a required prompt in any of its shapes; gives the number of prompts in it, at least one.
pub(super) fn read(draft: &mut Draft, cursor: &mut Cursor<'_>, field: &'static str, kind: SegmentKind) -> Result<u64, BodyError> {
    let wrong = || BodyError::WrongType {
        field: field.into(),
        expected: "a string, an array of strings, an array of token numbers, or an array of arrays of token numbers",
    };
    let (prompts, range) = match cursor.kind()? {
        Kind::Null => return cursor.skip().map(|_| 1),
        Kind::String => (1, cursor.skip()?),
        Kind::Array => {
            let (mut shape, mut length) = (None, 0_usize);
            let range = cursor.array(|cursor, _| {
                let element = cursor.kind()?;
                if *shape.get_or_insert(element) != element {
                    return Err(wrong());
                }
                length += 1;
                match element {
                    Kind::String | Kind::Number => cursor.skip().map(drop),
                    Kind::Array => {
                        let number = |cursor: &mut Cursor<'_>, _| match cursor.kind()? {
                            Kind::Number => cursor.skip().map(drop),
                            _ => Err(wrong()),
                        };
                        cursor.array(number).map(drop)
                    }
                    Kind::Object | Kind::Bool | Kind::Null => Err(wrong()),
                }
            })?;
            let prompts = if shape == Some(Kind::Number) { 1 } else { length };
            if prompts > MAX_SEGMENTS {
                return Err(BodyError::TooManyItems { field: field.into(), max: MAX_SEGMENTS });
            }
            (prompts.max(1) as u64, range)
        }
        Kind::Object | Kind::Number | Kind::Bool => return Err(wrong()),
    };
    draft.has_prompt = true;
    draft.push(field, kind, range).map(|()| prompts)
}
