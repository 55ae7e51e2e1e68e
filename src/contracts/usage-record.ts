/**
 * The record of usage: one for each call that is over, each job and each live session. Everything that has its columns
 * (the write-ahead file, Parquet, the answers of `/v1/usage`, the table of the manual) reads them here.
 *
 * No column holds a header, a body or a text of a caller's or a provider's: names come from the configuration, codes
 * from closed lists, and an end user is what the workspace lets be kept of it.
 */
export const USAGE_COLUMNS = [
  // Identity
  column('record_id', 'id', 'Unique; a record that is written again has the same.'),
  column(
    'kind',
    'word',
    '`call`, `job`, `session`, or `lease_expired`: the unknown part of a node that died.',
  ),
  column('request_id', 'id', 'Id of the answer; of a job the one that submitted it. Callers may choose it.'),
  column('job_id', 'id', 'Job that the record is of.', null),
  column('session_id', 'id', 'Live session that the record is of.', null),
  column('trace_id', 'id', 'W3C trace id in hexadecimal.', null),
  column('started_at', 'time', 'When its request came.'),
  column('ended_at', 'time', 'When it was over. Its partition is the day of this, in UTC.'),
  column('node', 'word', 'Process that wrote it.'),
  // Caller
  column('workspace', 'word', 'Id of the workspace.'),
  column('app', 'word', 'Id of the app.'),
  column('key_id', 'word', 'Id of the key.'),
  column('end_user', 'word', 'Whom the call was for, as the caller or a hash says.', null),
  column('purpose', 'word', 'Purpose that was applied.', null),
  // Route and entry
  column(
    'operation',
    'word',
    '`transcription`, `speech`, `chat`, …; null where it failed before one was known.',
    null,
  ),
  column(
    'endpoint',
    'word',
    'Method and path as the table of endpoints has them; of a job the endpoint that it names.',
  ),
  column('route', 'word', 'Route that served it, or would have.', null),
  column('policy_version_id', 'word', 'Version of that route.', null),
  column('provider', 'word', 'Provider that was tried last.', null),
  column('model', 'word', 'Model that was tried last.', null),
  column('region', 'word', 'Region of that entry, where it is declared.', null),
  column('attempts', 'count', 'Attempts at entries.'),
  column('attempt_reasons', 'word', '`provider/model=reason` of each attempt, between commas.', null),
  // Outcome
  column(
    'outcome',
    'word',
    '`ok`, `error`, `canceled` (a job) or `left` (the caller went before the answer).',
  ),
  column('status', 'count', 'HTTP status of the answer; of a job none.', null),
  column('error_code', 'word', 'Code of the error.', null),
  column('error_param', 'word', 'Documented field that the error names.', null),
  column('replayed', 'flag', 'The answer was given before; nothing was charged.'),
  column('cache', 'word', '`hit` or `miss` where the route keeps speech.', null),
  // Quantities and cost
  column('audio_seconds', 'seconds', 'Audio that was read, or live audio that came.', null),
  column('billable_audio_seconds', 'seconds', 'Audio that the price counts.', null),
  column('video_seconds', 'seconds', 'Video that was made.', null),
  column('input_tokens', 'count', 'Tokens read, as the provider counts them.', null),
  column('output_tokens', 'count', 'Tokens written, as the provider counts them.', null),
  column('characters', 'count', 'Characters of text to be spoken or translated.', null),
  column('images', 'count', 'Images made.', null),
  column('credits', 'count', 'Credits of the provider.', null),
  column('cost_usd', 'money', 'Cost; null where the price or the quantity is not known.', null),
  column('estimated', 'flag', 'The end of the attempt is unknown: quantities and cost are estimated.'),
  column('received_bytes', 'count', 'Bytes of the body that came.'),
  column('sent_bytes', 'count', 'Bytes of the answer.'),
  // Where its time went
  column(
    'total_ms',
    'milliseconds',
    'From the request to the end of the answer; of a job from its submission.',
  ),
  column('body_ms', 'milliseconds', 'While the body came.', null),
  column('upstream_ms', 'milliseconds', 'Waiting for others than the gateway and its stores.', null),
  column(
    'first_ms',
    'milliseconds',
    'To the first byte of the answer: the first token, or the first audio.',
    null,
  ),
] as const satisfies readonly UsageColumn[]

/**
 * How a column is kept. `id`: text, rarely twice the same. `word`: text of few values. `time`: epoch milliseconds.
 * `seconds`: whole milliseconds in memory, seconds of three decimals in files. `money`: whole micro-USD in memory, USD
 * of six decimals in files. `milliseconds` and `count`: whole numbers below 2^53.
 */
export type UsageColumnKind = 'id' | 'word' | 'time' | 'seconds' | 'money' | 'milliseconds' | 'count' | 'flag'

/** Decimals, outside of memory, of numbers that are whole in it. */
export const USAGE_SCALES = { money: 6, seconds: 3 } as const

export interface UsageColumn {
  readonly name: string
  readonly kind: UsageColumnKind
  readonly isNullable: boolean
  /** Its description in the manual. */
  readonly says: string
}

type Column = (typeof USAGE_COLUMNS)[number]
export type UsageColumnName = Column['name']

type ValueOf<C extends UsageColumn> =
  | (C['kind'] extends 'id' | 'word' ? string : C['kind'] extends 'flag' ? boolean : number)
  | (C['isNullable'] extends true ? null : never)

/** A record in memory: every column has a value or null. */
export type UsageRecord = { readonly [C in Column as C['name']]: ValueOf<C> }

function column<const Name extends string, const Kind extends UsageColumnKind>(
  name: Name,
  kind: Kind,
  says: string,
): { readonly name: Name; readonly kind: Kind; readonly isNullable: false; readonly says: string }
function column<const Name extends string, const Kind extends UsageColumnKind>(
  name: Name,
  kind: Kind,
  says: string,
  otherwise: null,
): { readonly name: Name; readonly kind: Kind; readonly isNullable: true; readonly says: string }
function column(name: string, kind: UsageColumnKind, says: string, otherwise?: null): UsageColumn {
  return { name, kind, says, isNullable: otherwise === null }
}
