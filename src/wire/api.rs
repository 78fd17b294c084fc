//! The routes the gateway knows, and the dialect each speaks.

/// One API of a provider, recognised by the path of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Api {
    /// `POST /v1/chat/completions`
    Chat,
    /// `POST /v1/responses`
    Responses,
    /// `POST /v1/completions`
    Completions,
    /// `POST /v1/embeddings`
    Embeddings,
    /// `POST /v1/messages`
    Messages,
    /// `POST /v1/messages/count_tokens`
    CountTokens,
    /// `GET /v1/models` and `GET /v1/models/{id}`, in the OpenAI dialect
    Models,
    /// The same paths called with an `anthropic-version` header
    AnthropicModels,
    /// `GET` and `DELETE /v1/jobs/{id}`: the gateway's own, answered in the caller's format and never forwarded
    Jobs(Dialect),
    /// `GET /v1/triage/{id}`: the gateway's own, refused in the caller's format and never forwarded
    Triage(Dialect),
    /// Any other path: refused in the format its caller most likely reads, and logged, since a base URL gone wrong is seen there first
    Unknown(Dialect),
}

/// Whose formats (errors, streams, headers) a route or an upstream speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// OpenAI and everything compatible with it.
    OpenAi,
    /// Anthropic.
    Anthropic,
}

impl Api {
    /// Whose formats the route speaks.
    #[must_use]
    pub const fn dialect(self) -> Dialect {
        match self {
            Self::Chat | Self::Responses | Self::Completions | Self::Embeddings | Self::Models => Dialect::OpenAi,
            Self::Messages | Self::CountTokens | Self::AnthropicModels => Dialect::Anthropic,
            Self::Jobs(dialect) | Self::Triage(dialect) | Self::Unknown(dialect) => dialect,
        }
    }

    /// The label used in logs and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Completions => "completions",
            Self::Embeddings => "embeddings",
            Self::Messages => "messages",
            Self::CountTokens => "count_tokens",
            Self::Models => "models",
            Self::AnthropicModels => "anthropic_models",
            Self::Jobs(_) => "jobs",
            Self::Triage(_) => "triage",
            Self::Unknown(_) => "unknown",
        }
    }

    /// Whether a request costs a message and a request, but no tokens and no money.
    #[must_use]
    pub const fn is_free(self) -> bool {
        matches!(
            self,
            Self::CountTokens | Self::Models | Self::AnthropicModels | Self::Jobs(_) | Self::Triage(_) | Self::Unknown(_)
        )
    }

    /// Whether the route takes a JSON body.
    #[must_use]
    pub const fn has_body(self) -> bool {
        !matches!(self, Self::Models | Self::AnthropicModels | Self::Jobs(_) | Self::Triage(_) | Self::Unknown(_))
    }

    /// Whether the model produces output tokens.
    #[must_use]
    pub const fn generates(self) -> bool {
        matches!(self, Self::Chat | Self::Responses | Self::Completions | Self::Messages)
    }
}
