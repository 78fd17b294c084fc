//! The fields that all APIs share.

use super::draft::{Draft, nested};
use super::error::BodyError;
use super::{MAX_MODEL_BYTES, read};
use crate::wire::Api;
use crate::wire::cursor::{Cursor, Kind};

/// Reads a field that every API has, or leaves the cursor where it is and says `false`.
pub(super) fn field(draft: &mut Draft, cursor: &mut Cursor<'_>, key: &str) -> Result<bool, BodyError> {
    match key {
        "model" => {
            let (model, place) = cursor.spanned(model)?;
            draft.model = model.map(|model| (model, place));
        }
        "stream" => draft.stream = read::boolean(cursor, "stream")?.unwrap_or(false),
        "service_tier" => draft.service_tier = read::text(cursor, "service_tier")?,
        "metadata" => {
            let value = |cursor: &mut Cursor<'_>| read::text(cursor, "metadata.user_id");
            (draft.features.user_ids.metadata_user_id, draft.places.metadata) = nested(cursor, "metadata", &["user_id"], value)?;
        }
        "safety_identifier" => {
            let (id, place) = cursor.spanned(|cursor| read::text(cursor, "safety_identifier"))?;
            draft.features.user_ids.safety_identifier = id;
            if matches!(draft.api, Api::Chat | Api::Responses) {
                draft.places.user = Some(place);
            }
        }
        "user" => {
            let (id, place) = cursor.spanned(|cursor| read::text(cursor, "user"))?;
            draft.features.user_ids.user = id;
            if matches!(draft.api, Api::Completions | Api::Embeddings) {
                draft.places.user = Some(place);
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// `null` is the same as no model. Control characters are refused since the name goes into headers and logs.
fn model(cursor: &mut Cursor<'_>) -> Result<Option<String>, BodyError> {
    match cursor.kind()? {
        Kind::Null => return cursor.skip().map(|_| None),
        Kind::String => {}
        _ => return Err(BodyError::WrongType { field: "model".into(), expected: "a string" }),
    }
    let model = read::short(cursor, "model".into(), MAX_MODEL_BYTES)?;
    if model.is_empty() {
        return Err(BodyError::EmptyText { field: "model".into() });
    }
    if model.contains(char::is_control) {
        return Err(BodyError::ControlCharacter { field: "model".into() });
    }
    Ok(Some(model))
}
