//! What a request asks for besides text: everything that changes its price, its bound or what may answer it.

/// What a request asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Any tools or functions are declared.
    pub tools: bool,
    /// The reply must be JSON (`json_schema` or `json_object`): no sentence of ours may stand in for it or be appended to its prompt.
    pub json_schema: bool,
    /// `background: true`: the reply would come later, and with it the usage.
    pub background: bool,
    /// The provider adds input that is not in the body: `previous_response_id`, `conversation`, a stored `prompt`, referenced items.
    pub stored_context: bool,
    /// Tools that the provider runs by itself, each once. Their rounds and their own prices cannot be bounded from the body.
    pub server_tools: Vec<ServerTool>,
    /// The model may answer in audio.
    pub audio_output: bool,
    /// `reasoning_effort`, `reasoning.effort` or `output_config.effort`.
    pub reasoning_effort: Option<String>,
    /// Anthropic's `thinking.budget_tokens`.
    pub thinking_budget: Option<u64>,
    /// Anthropic's `speed`; `fast` costs a multiple.
    pub speed: Option<String>,
    /// Anthropic's `inference_geo`; `us` costs more.
    pub inference_geo: Option<String>,
    /// Who the request says its user is.
    pub user_ids: UserIds,
}

/// The fields in which a body may name its user. All are opaque, unverified and at most 1,024 bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserIds {
    /// `metadata.user_id`, Anthropic's own field; OpenAI callers use it by habit.
    pub metadata_user_id: Option<String>,
    /// OpenAI's `safety_identifier`.
    pub safety_identifier: Option<String>,
    /// OpenAI's older `user`.
    pub user: Option<String>,
}

/// A tool that the provider runs by itself, with a price of its own or more input than the body shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ServerTool {
    /// Searches the web.
    WebSearch,
    /// Reads web pages.
    WebFetch,
    /// Runs code or a shell in the provider's container.
    CodeExecution,
    /// Searches stored files.
    FileSearch,
    /// Calls a remote MCP server.
    Mcp,
    /// Makes images.
    ImageGeneration,
    /// A kind of tool this version does not know.
    Other,
}

impl ServerTool {
    /// The name used in errors and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WebSearch => "web_search",
            Self::WebFetch => "web_fetch",
            Self::CodeExecution => "code_execution",
            Self::FileSearch => "file_search",
            Self::Mcp => "mcp",
            Self::ImageGeneration => "image_generation",
            Self::Other => "other",
        }
    }
}

impl Features {
    /// Notes a server tool once.
    pub(super) fn add_server_tool(&mut self, tool: ServerTool) {
        if !self.server_tools.contains(&tool) {
            self.server_tools.push(tool);
        }
    }
}
