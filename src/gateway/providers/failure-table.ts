import type { FailureKind, RejectionReason } from '../../contracts/upstream.ts'

/** Meaning of a code, a status or a sentence of a provider. */
export interface Meaning {
  readonly kind: FailureKind
  /** Reason of the refusal, for kinds that concern the input. */
  readonly reason?: RejectionReason
  /** Field of the gateway's interface at fault, where code or sentence name it. */
  readonly param?: string
}

/**
 * Codes that outrank the status they come with: providers answer 429 when the money is gone, 400 for a retired model
 * or a bad key, 401 for an unknown voice, and 200 with an error in the middle of a stream. Each as its provider
 * documents it: https://platform.openai.com/docs/guides/error-codes, https://console.groq.com/docs/errors,
 * https://help.elevenlabs.io/hc/en-us/articles/19572237925521, https://developers.deepgram.com/docs/errors,
 * https://docs.anthropic.com/en/api/errors, https://ai.google.dev/gemini-api/docs/troubleshooting,
 * https://www.assemblyai.com/docs/sync-stt/error-handling, https://docs.fal.ai/model-apis/errors,
 * https://docs.mistral.ai/resources/error-glossary
 */
const CODES: readonly (readonly [meaning: Meaning, codes: readonly string[]])[] = [
  [
    { kind: 'credential' },
    [
      // OpenAI
      ...['insufficient_quota', 'credit_balance_exhausted', 'organization_spend_limit_exceeded'],
      ...['project_spend_limit_exceeded', 'organization_usage_limit_exceeded', 'billing_hard_limit_reached'],
      ...['billing_not_active', 'account_deactivated', 'unsupported_country_region_territory'],
      // OpenAI and ElevenLabs
      'invalid_api_key',
      // ElevenLabs
      'missing_permissions',
      'quota_exceeded',
      // ElevenLabs' sockets, elevenlabs-js 2.73.0 wrapper/realtime/connection.d.ts
      'auth_error',
      'unaccepted_terms',
      // Groq, with 400: over the spend limit of the organization, https://console.groq.com/docs/spend-limits
      'blocked_api_access',
      'organization_restricted',
      // Deepgram
      ...['INVALID_AUTH', 'INSUFFICIENT_PERMISSIONS', 'ASR_PAYMENT_REQUIRED'],
      // Anthropic
      ...['authentication_error', 'billing_error', 'permission_error'],
      // Anthropic's `error.details.error_code`, @anthropic-ai/sdk 1.10.0 resources/shared.d.ts: an organization
      // on hold, or with a key of its own that cannot be used, answers 400, one over its spend limit 429.
      ...['organization_on_hold', 'contract_spend_limit_reached', 'enforced_spend_limit_reached'],
      ...['linked_organization_billing_unavailable', 'linked_organization_spend_limit_reached'],
      ...['user_profile_billing_not_authorized', 'user_profile_not_billable', 'cmek_key_disabled'],
      ...['cmek_key_network_blocked', 'organization_type_not_supported', 'parent_organization_required'],
      // Google: FAILED_PRECONDITION means that billing, or the region, does not allow the free tier.
      ...['API_KEY_INVALID', 'API_KEY_EXPIRED', 'API_KEY_SERVICE_BLOCKED', 'API_KEY_HTTP_REFERRER_BLOCKED'],
      ...['API_KEY_IP_ADDRESS_BLOCKED', 'SERVICE_DISABLED', 'BILLING_DISABLED', 'CONSUMER_INVALID'],
      ...['CONSUMER_SUSPENDED', 'UNAUTHENTICATED', 'PERMISSION_DENIED', 'FAILED_PRECONDITION'],
    ],
  ],
  [
    { kind: 'model' },
    [
      ...['model_not_found', 'model_not_active', 'model_decommissioned', 'deployment_not_found'],
      'UNIMPLEMENTED',
      // Groq, with 400: the organization has not agreed to the terms of the model.
      'model_terms_required',
      // Mistral, with 400; the page says the second
      'invalid_model',
      'unknown_model',
    ],
  ],
  [
    { kind: 'rate' },
    [
      ...['rate_limit_exceeded', 'slow_down', 'server_is_overloaded', 'engine_overloaded'],
      // Groq and AssemblyAI
      'capacity_exceeded',
      // ElevenLabs
      ...['too_many_concurrent_requests', 'system_busy', 'rate_limited', 'queue_overflow'],
      'resource_exhausted',
      // Deepgram
      'TOO_MANY_REQUESTS',
      // Anthropic; the last while the traffic of an organization grows too fast
      ...['rate_limit_error', 'overloaded_error', 'ramp_limit_exceeded'],
      // Google
      'RESOURCE_EXHAUSTED',
      'UNAVAILABLE',
    ],
  ],
  [
    { kind: 'server' },
    [
      // Anthropic
      'api_error',
      'timeout_error',
      // AssemblyAI
      'inference_timeout',
      // Google
      ...['INTERNAL', 'DEADLINE_EXCEEDED', 'ABORTED', 'CANCELLED'],
    ],
  ],
  [{ kind: 'limit', reason: 'context_too_long' }, ['context_length_exceeded']],
  // OpenAI; ElevenLabs, also with 401
  [{ kind: 'limit', reason: 'too_long' }, ['string_above_max_length', 'max_character_limit_exceeded']],
  // Anthropic, AssemblyAI, OpenAI
  [
    { kind: 'limit', reason: 'too_large' },
    ['request_too_large', 'audio_too_large', 'image_too_large', 'image_file_too_large'],
  ],
  // OpenAI, of parameters and values that one model lacks and the next may have
  [
    { kind: 'limit', reason: 'unsupported_option' },
    ['unsupported_parameter', 'unsupported_value', 'unknown_parameter', 'invalid_service_tier'],
  ],
  // Groq, with 400: the model wrote a call or JSON that is none, which another attempt or model may do better
  [{ kind: 'limit' }, ['tool_use_failed', 'json_validate_failed']],
  // ElevenLabs, also with 401
  [{ kind: 'caller', reason: 'unknown_voice', param: 'voice' }, ['voice_not_found']],
  // ElevenLabs' sockets: audio that another entry may take
  [{ kind: 'limit', reason: 'too_large' }, ['chunk_size_exceeded']],
  // AssemblyAI, OpenAI
  [{ kind: 'caller', reason: 'bad_audio' }, ['bad_audio', 'audio_too_short']],
  [
    { kind: 'caller', reason: 'bad_image' },
    [
      ...['invalid_image', 'invalid_image_format', 'invalid_base64_image', 'image_parse_error'],
      ...['unsupported_image_media_type', 'empty_image_file'],
    ],
  ],
  [
    { kind: 'content', reason: 'content_policy' },
    ['content_policy_violation', 'content_filter', 'moderation_blocked', 'image_content_policy_violation'],
  ],
]

export const MEANING_OF_CODE: ReadonlyMap<string, Meaning> = new Map(
  CODES.flatMap(([meaning, codes]) => codes.map((code) => [code, meaning] as const)),
)

/**
 * Statuses whose kind is not that of their hundred. 498 and 529 are Groq's and Anthropic's words for
 * overload; 425 is ElevenLabs' "too early".
 */
export const MEANING_OF_STATUS: ReadonlyMap<number, Meaning> = new Map([
  [401, { kind: 'credential' }],
  [402, { kind: 'credential' }],
  [403, { kind: 'credential' }],
  [404, { kind: 'model' }],
  [405, { kind: 'model' }],
  [408, { kind: 'server' }],
  [409, { kind: 'server' }],
  [410, { kind: 'model' }],
  [413, { kind: 'limit', reason: 'too_large' }],
  [414, { kind: 'limit', reason: 'too_large' }],
  [415, { kind: 'caller', reason: 'unsupported_format' }],
  [424, { kind: 'server' }],
  [425, { kind: 'rate' }],
  [429, { kind: 'rate' }],
  [498, { kind: 'rate' }],
  [499, { kind: 'server' }],
  [501, { kind: 'model' }],
  [503, { kind: 'rate' }],
  [529, { kind: 'rate' }],
])

/**
 * Codes with which a socket is closed, and words in the reason beside them that tell more. Codes that RFC 6455 defines
 * mean the same at every provider; of the private ones no two providers here use the same for different things. A code
 * that is not listed is the provider's own trouble.
 */
export const MEANING_OF_CLOSE: ReadonlyMap<number | string, Meaning> = new Map<number | string, Meaning>([
  // No close frame: it is not known what became of the audio.
  [1006, { kind: 'ambiguous' }],
  [1003, { kind: 'limit', reason: 'unsupported_format' }],
  [1007, { kind: 'limit', reason: 'bad_audio' }],
  [1009, { kind: 'limit', reason: 'too_large' }],
  [1012, { kind: 'rate' }],
  [1013, { kind: 'rate' }],
  // AssemblyAI 4.41.5 src/utils/errors/streaming.ts and https://www.assemblyai.com/docs/streaming/error-codes
  [3006, { kind: 'limit', reason: 'unsupported_option' }],
  [3009, { kind: 'rate' }],
  [4000, { kind: 'limit', reason: 'unsupported_option' }],
  [4001, { kind: 'credential' }],
  [4002, { kind: 'credential' }],
  [4003, { kind: 'credential' }],
  [4029, { kind: 'rate' }],
  [4101, { kind: 'limit', reason: 'unsupported_option' }],
  [4102, { kind: 'rate' }],
  // Deepgram, https://developers.deepgram.com/docs/stt-troubleshooting-websocket-data-and-net-errors: audio that cannot
  // be decoded is no fault of the caller's where the format was ours to name.
  ['DATA-0000', { kind: 'limit', reason: 'bad_audio' }],
  ['NET-0000', { kind: 'server' }],
  ['NET-0001', { kind: 'server' }],
])

/**
 * Sentences of providers that have no code for a failure which is not the caller's, or is a limit: told as 400 (or in
 * an answer of 200), word for word from the beginning. Nothing else is ever read out of prose.
 */
export const SENTENCES: readonly (readonly [sentence: RegExp, meaning: Meaning])[] = [
  // AssemblyAI, https://www.assemblyai.com/docs/faq/common-errors-and-solutions
  [/^Your current account balance is negative\./, { kind: 'credential' }],
  // Its transcripts that failed at its own end; the address is of its own store.
  // https://www.assemblyai.com/docs/pre-recorded-audio/guides/retry-server-error
  [/^(?:Internal server error|Server error|Upload failed)\b/, { kind: 'server' }],
  [/^Download error, unable to download https:\/\/cdn\.(?:eu\.)?assemblyai\.com\//, { kind: 'server' }],
  [/^(?:Audio duration is too short|Transcoding failed)\b/, { kind: 'caller', reason: 'bad_audio' }],
  // ElevenLabs, with 402: a voice of its library, by an account that does not pay
  [/^Free users cannot use library voices\b/, { kind: 'limit', reason: 'unknown_voice', param: 'voice' }],
  // Anthropic
  [/^Your credit balance is too low to access the /, { kind: 'credential' }],
  [/^prompt is too long: /, { kind: 'limit', reason: 'context_too_long' }],
  [/^input length and `max_tokens` exceed context limit: /, { kind: 'limit', reason: 'context_too_long' }],
  // Runway. Its pages do not have the sentence: it was seen in the wild.
  [/^You do not have enough credits to run this task\./, { kind: 'credential' }],
  // Deepgram
  [/^(?:Bad Request: )?No such model\/language\/tier combination found\./, { kind: 'model' }],
  // Its voices are models of their own.
  [
    /^(?:Bad Request: )?No such model\/version combination found\./,
    { kind: 'caller', reason: 'unknown_voice', param: 'voice' },
  ],
  [
    /^(?:Bad Request: )?Keyterm limit exceeded\./,
    { kind: 'limit', reason: 'unsupported_option', param: 'keyterms' },
  ],
  [/^(?:Bad Request: )?failed to process audio: /, { kind: 'caller', reason: 'bad_audio' }],
  // OpenAI; servers that speak its language say the first without its code
  [/^This model's maximum context length is /, { kind: 'limit', reason: 'context_too_long' }],
  [/^audio duration [\d.]+ seconds is longer than /, { kind: 'limit', reason: 'too_long', param: 'audio' }],
  [/^chunking_strategy is required\b/, { kind: 'limit', reason: 'unsupported_option' }],
  [/^Invalid file format\. Supported formats: /, { kind: 'caller', reason: 'unsupported_format' }],
  // Groq
  [
    /^This model does not support response format `json_schema`/,
    { kind: 'limit', reason: 'unsupported_option', param: 'response_schema' },
  ],
  // Google
  [/^The input token count\b/, { kind: 'limit', reason: 'context_too_long' }],
  [/^Request payload size exceeds the limit: /, { kind: 'limit', reason: 'too_large' }],
]

/** Names that providers have for fields of the gateway's interface; no other name reaches a caller. */
export const FIELDS: ReadonlyMap<string, string> = new Map([
  ...[
    ...['audio', 'diarization', 'dimensions', 'input', 'keyterms', 'language', 'max_tokens', 'messages'],
    ...['modalities', 'n', 'output_format', 'prompt', 'quality', 'response_format', 'seed', 'size', 'speed'],
    ...['stop', 'temperature', 'tool_choice', 'tools', 'top_p', 'voice'],
  ].map((name) => [name, name] as const),
  ['file', 'audio'],
  ['audio_url', 'audio'],
  ['voice_id', 'voice'],
  ['text', 'input'],
  ['max_completion_tokens', 'max_tokens'],
  ['language_code', 'language'],
  ['diarize', 'diarization'],
  ['speaker_labels', 'diarization'],
  ['context_bias', 'keyterms'],
  ['keyterms_prompt', 'keyterms'],
  ['keywords', 'keyterms'],
  ['timestamp_granularities', 'timestamps'],
  ['timestamps_granularity', 'timestamps'],
  ['duration', 'duration_seconds'],
  ['promptText', 'prompt'],
])
