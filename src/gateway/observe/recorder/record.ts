import { callFacts, failureCode } from '../../../contracts/call-facts.ts'
import { CAPABILITIES, FEATURES, PROTOCOL_FEATURES } from '../../../contracts/calls.ts'
import { SCOPES } from '../../../contracts/catalog.ts'
import type { RecordedFailure, RecordedVerdict, RequestRecord } from '../../../contracts/console.ts'
import type { GatewayError } from '../../../contracts/errors.ts'
import { EXTRA_NAMES } from '../../../contracts/extras.ts'
import { newId } from '../../../contracts/ids.ts'
import type { EndedCall, EndedExchange, RecordedJob } from '../../../contracts/recorder.ts'

/** Entries that a failure is recorded with: a record must not grow with the routes of an odd configuration. */
const ENTRIES_MAX = 20
/** Items of any list. */
const ITEMS_MAX = 20
const PARAM_DEPTH_MAX = 8

/**
 * Names that a field of a request can have, at any depth. Callers choose the names of unknown fields, so that no other
 * name is recorded; a test compares the list with the request schemas.
 */
export const FIELD_NAMES: ReadonlySet<string> = new Set(
  `
    Idempotency-Key X-LK-Require access_programs after_id allowed_callers anchor
    apply_language_text_normalization apply_text_normalization arguments async audio audio_base64
    audio_effects audio_url background background_options base64 before_id best_of boost_param call_id channels
    chars_per_caption chunking_strategy cloud_storage_url commit complexity content context_management
    conversation created_on custom_vocabulary data days defer_loading delay description detail
    detect_language diarization diarization_threshold diarize dimensions domain domains dual_channel
    duration_seconds echo enable_logging encoding encoding_format endpoint endpointing_ms
    effort entity_redaction entity_redaction_mode expires_after expires_after_seconds file file_format file_id filename
    filter_profanity format format_text frame_count frame_duration_ms frequency_penalty function
    function_call functions id idempotency_key image image_url images include include_obfuscation
    include_usage input input_audio instructions interim json_schema keyterms keyterms_prompt
    keyterms_prompt_options keywords known_speaker_names known_speaker_references language language_code
    language_detection language_detection_options languages limit logit_bias logprobs
    max_bytes max_completion_tokens max_output_tokens max_session_seconds max_sessions max_tokens max_tool_calls
    media_type messages metadata modalities mode model model_id moderation multichannel
    multichannel_output_style n name next_request_ids next_text noise_reduction num_speakers options
    output output_compression output_format output_schema parallel_tool_calls parameters partial_images
    payload prediction presence_penalty previous_request_ids previous_response_id previous_text prewarm
    profanity_filter prompt prompt_cache_key prompt_cache_options prompt_cache_retention
    pronunciation_dictionary_locators punctuate purpose quality rate reasoning reasoning_effort
    redact_pii redact_pii_policies redact_pii_sub redaction refusal region require response_format
    response_profile response_schema retention role safety_identifier sample_rate schema seconds seed
    service_tier session silence_duration_ms size smart_formatting source_url speaker_count_hint
    speaker_labels speaker_options speakers_expected speech_model speech_models speed status stop store
    stream stream_format stream_options strict style subtitle_characters_per_second
    skip_silence max_cost_usd subtitle_line_length subtitle_lines suffix svg tag_audio_events task temperature text
    throttled_only timestamp_granularities timestamps timestamps_granularity token tool_call_id
    tool_calls tool_choice tools top_logprobs top_p training transcription truncation turn_detection
    type upload_id url use_multi_channel use_pvc_as_ivc user verbosity voice voice_settings wait
    web_search_options webhook webhook_auth_header_name webhook_auth_header_value webhook_id
    webhook_metadata webhook_url word_boost words
  `
    .trim()
    .split(/\s+/),
)

/** Beginnings of messages that say how a field breaks the rules. The rest of a message is not recorded. */
export const FIELD_RULES = [
  ...['must be given', 'must be a string', 'must be an integer', 'must be a number'],
  ...['must be a whole number', 'must be a list of strings', 'must be a list', 'must be an object'],
  ...['must be true or false', 'must be one of', 'must be at least', 'must be at most'],
  ...['must be greater than', 'must be base64', 'must have at most', 'must not be empty', 'must be left out'],
  ...['must be sent once', 'must be visible ASCII', 'is over'],
] as const

/** Names that can be reported as missing. */
const MISSABLE: ReadonlySet<unknown> = new Set([
  ...FEATURES,
  ...PROTOCOL_FEATURES,
  ...EXTRA_NAMES,
  ...CAPABILITIES,
  ...SCOPES,
  'key',
  'workspace',
])
/** Form of our own names, such as those of limits. */
const OWN_WORD = /^[a-z][a-z0-9_]{0,39}$/

/** Why a request failed, reduced to what is in closed lists. */
export function recordedFailure({ message, extra }: GatewayError): RecordedFailure {
  const { param, details = {} } = extra
  const entries = Array.isArray(details.entries) ? (details.entries as readonly unknown[]) : []
  return {
    param: documentedParam(param),
    rule: param === undefined ? null : ruleIn(message, param),
    reason: ownWord(details.reason),
    missing: missable([details.required_capabilities, details.scope, details.budget].flat()),
    limit: limitIn(details),
    entries: entries.slice(0, ENTRIES_MAX).map(verdictOf),
    moreEntries: Math.max(0, entries.length - ENTRIES_MAX),
  }
}

/** `messages[2].content`, when each of its names is documented; null otherwise. */
export function documentedParam(param: unknown): string | null {
  if (typeof param !== 'string' || param.length > 128) return null
  const names = param.replaceAll(/\[\d{0,6}\]/g, '').split('.')
  return names.length <= PARAM_DEPTH_MAX && names.every((name) => FIELD_NAMES.has(name)) ? param : null
}

function ruleIn(message: string, param: string): string | null {
  const named = [`\`${param}\` `, `${param} `].find((beginning) => message.startsWith(beginning))
  if (named === undefined) return null
  const said = message.slice(named.length)
  return FIELD_RULES.find((rule) => said.startsWith(rule)) ?? null
}

function limitIn(details: Readonly<Record<string, unknown>>): RecordedFailure['limit'] {
  const name = ownWord(details.limit)
  if (name === null) return null
  const unit = name.endsWith('_seconds') ? 'seconds' : 'bytes'
  const actual =
    unit === 'seconds' ? details.audio_seconds : (details.declared_bytes ?? details.received_bytes)
  return { name, max: figure(details[`limit_${unit}`]), actual: figure(actual) }
}

/** A row of `explainRows`, without its `detail`, which may quote the request. */
function verdictOf(row: unknown): RecordedVerdict {
  const { route, provider, model, left, missing, conflict, param, retry_after_ms } = Object(row)
  return {
    route: String(route),
    provider: String(provider),
    model: String(model),
    left: ownWord(left),
    missing: missable(missing),
    conflict: missable(conflict),
    param: documentedParam(param),
    retryAfterMs: figure(retry_after_ms),
  }
}

function ownWord(value: unknown): string | null {
  return typeof value === 'string' && OWN_WORD.test(value) ? value : null
}

function missable(value: unknown): readonly string[] {
  if (!Array.isArray(value)) return []
  return value.filter((item): item is string => MISSABLE.has(item)).slice(0, ITEMS_MAX)
}

function figure(value: unknown): number | null {
  return typeof value === 'number' && Number.isFinite(value) ? value : null
}

/**
 * Record of a request that is over. Tells what its line in the log tells, no more.
 *
 * @param addedMs null: the recorder did not look closely when the answer was there
 * @param atMs    epoch milliseconds, here and below
 */
export function requestRecord(
  exchange: EndedExchange,
  call: EndedCall,
  addedMs: number | null,
  atMs: number,
): RequestRecord {
  const { requestId, method, pattern, status, elapsedMs, receivedBytes, sentBytes } = exchange
  const { workspace = '', app = '', key_id: keyId = '', ...called } = recordedFacts(call)
  return {
    recordId: newId('rec'),
    id: requestId,
    atMs,
    workspace,
    app,
    keyId,
    method,
    path: pattern ?? '',
    status,
    error: failureCode(exchange, call) ?? null,
    failure: call.failure && recordedFailure(call.failure),
    milliseconds: Math.round(elapsedMs),
    addedMs: addedMs === null ? null : Math.round(addedMs * 100) / 100,
    receivedBytes,
    sentBytes,
    jobId: call.jobId,
    replayed: call.answer.replayed,
    ...called,
  }
}

/** Record of a run of a job. The node's own time is not told apart, since it works on several runs at once. */
export function runRecord(
  job: RecordedJob,
  call: EndedCall,
  milliseconds: number,
  atMs: number,
): RequestRecord {
  const { workspace: _, app: __, key_id: ___, ...called } = recordedFacts(call)
  return {
    recordId: newId('rec'),
    id: job.requestId,
    atMs,
    workspace: job.workspace,
    app: job.app,
    keyId: job.keyId,
    method: 'RUN',
    path: 'job',
    status: null,
    error: call.failure?.code ?? null,
    failure: call.failure && recordedFailure(call.failure),
    milliseconds: Math.round(milliseconds),
    addedMs: null,
    receivedBytes: 0,
    sentBytes: 0,
    jobId: job.id,
    replayed: false,
    ...called,
  }
}

function recordedFacts(call: EndedCall) {
  const facts = callFacts(call)
  const selected = call.recordedCall()
  return {
    workspace: facts.workspace,
    app: facts.app,
    key_id: facts.key_id,
    route: facts.route ?? null,
    policyVersionId: facts.policy_version_id ?? null,
    attempts: facts.attempts ?? [],
    usage: facts.usage ?? null,
    costUsd: facts.cost_usd ?? null,
    ...(call.answer.cache === null ? {} : { cache: call.answer.cache }),
    live: call.live,
    ...(selected === null ? {} : { call: selected }),
  }
}
